"""Volumes: what a pod sees at its mount paths, and where that is kept.

``preparing`` is the door: all volumes of a pod, made and kept up to date. Of what they are made:

    payloads, atomic_folder, tokens     config maps, secrets, fields of the pod and tokens as files, exchanged all at once
    host_paths, memory                  folders of the machine, and in memory
    claims                              volumes that outlive pods: found, mounted, grown
    errands, running_errands, storekeeping
                                        claims that want a volume on this node, and volumes that nobody wants any more
    keeping, directories, loops, filesystems
                                        how such a volume is kept: a folder, or a filesystem in a file
    volume_owners, cluster_identity, mount_users
                                        which control plane a volume belongs to, and who uses it
    sweeping, removing                  what is taken away, and what never
    throttles                           how much a volume's users may read and write
    mounting, subpaths, ownership       where containers see them, and who may write
    usage                               how full they are, in kubelet's words

Decisions are functions of what was read from the server; the disk is touched in few places, each of which bears being cut short.
"""
