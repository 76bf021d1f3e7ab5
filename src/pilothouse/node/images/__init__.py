"""Images: imported files, and how the programs in them are started.

``image_references`` parses names, ``image_manifest`` describes an image, ``unpacking`` writes untrusted
archives to disk safely, ``image_store`` is the directory of all images, ``airgap_bundles`` carries several to
other machines in one file. Nothing is pulled: the error for a missing image says how to import it.
"""
