"""Images: files that were brought to this node, and what they say of the programs in them.

``references`` reads names, ``bundles`` is what an image is, ``unpacking`` lets nothing dangerous onto the disk, ``library`` is the
folder with all of them, ``airgap`` carries some of them to other machines in one file. Nothing is fetched from anywhere: an image that is not here is missing, and says how it would come here.
"""
