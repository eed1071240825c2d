# A server that returns with another disk under a mounted ext4, attached over FUSE and a loop device.
#: serve DISK 96M
#: serve OTHER 96M
#: outboard
#: timeout 300

sh /guest/attach-swap fuse
