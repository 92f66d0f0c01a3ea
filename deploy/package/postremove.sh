#!/bin/sh
# Only a purge removes the data. There is none in rpm.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
if [ "$1" = purge ]; then rm -rf /var/lib/linkforge; fi
