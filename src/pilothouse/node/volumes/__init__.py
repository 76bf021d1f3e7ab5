"""Volumes: what a pod sees at its mount paths, and where that is stored.

    pod_volumes, assembly               the entry: prepares the volumes of a pod, keeps them up to date
    projected_files, atomic_directory, pod_tokens
                                        config maps, secrets, pod fields and tokens as files
    host_paths, memory_directories      directories of the machine, and in memory
    claim_volumes                       persistent volumes: found, mounted, expanded
    volume_plan, volume_plan_executor, volume_controller, claim_statuses
                                        provisions volumes for claims on this node, and deletes unused ones
    volume_backend, directory_backend, loop_backend, filesystems
                                        persistent volumes as directories, or as filesystems in files
    storage_pools, pooled_backends, pool_report
                                        tiers as StoragePools: their sizes, and how they grow
    volume_owners, cluster_identity, mount_holders
                                        which control plane a volume belongs to, and which processes use it
    orphaned_volumes, removal           what is removed, and what never
    volume_attributes, throttles        the parameters of a VolumeAttributesClass; I/O limits
    volume_mover, move_plan, move_journal, move_status, volume_places, tree_copy, btrfs_replace
                                        moves between the tiers of the node
    private_directories, tier_permissions
                                        directories of the node: which no pod may mount, which are safe
    mount_table, block_devices          what is mounted where, and on which disk
    container_mounts, subpaths, ownership   where containers see them, and who may write
    volume_usage, pod_usage             how full they are

Decisions are functions of the API's objects; changes to the disk may be interrupted at any point.
"""
