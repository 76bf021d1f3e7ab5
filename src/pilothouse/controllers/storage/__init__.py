"""Claims and volumes: binding (``claim_binder``), the phases of volumes (``volume_lifecycle``), and the
protection of both while in use (``protection``). Provisioners create volumes; these controllers request
them and wait."""
