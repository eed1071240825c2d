# A server that returns with another disk under a mounted ext4, attached through the kernel's nbd.
#: serve DISK 96M
#: serve OTHER 96M
#: outboard
#: timeout 300

sh /guest/attach-swap kernel
