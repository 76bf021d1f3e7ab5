"""Services on this machine: a service's address and port lead to its ready endpoints.

backends    which address and port leads where: a function of services, slices and pods
budget      how many places are listened at, and whose
balancing   which endpoint a connection gets
forwarding  bytes from one connection to the other
proxy       listens where ``backends`` says, and nowhere else
socket_store  keeps them open while an agent is started again
listening_sockets  who else listens on this machine
"""
