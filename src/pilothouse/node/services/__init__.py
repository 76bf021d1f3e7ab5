"""The service proxy of this machine: a service's address and port lead to its ready endpoints.

backends           which address and port leads to which endpoints: a function of services, slices and pods
connection_budget  how many listeners and connections there may be, and for which services
load_balancer      chooses the endpoint of a connection
forwarding         copies bytes between two connections
service_proxy      listens at the addresses of ``backends``, and nowhere else
socket_store       keeps the sockets open while the agent restarts
listening_sockets  the other listeners of this machine
"""
