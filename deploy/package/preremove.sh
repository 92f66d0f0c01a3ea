#!/bin/sh
# deb: remove. rpm: 0. Other values: an upgrade.
set -e
case $1 in
remove | 0) if [ -d /run/systemd/system ]; then systemctl disable --now linkforge.service; fi ;;
esac
