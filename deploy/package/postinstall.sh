#!/bin/sh
# deb: configure, and the earlier version at an upgrade. rpm: 1 at the installation, 2 at an upgrade.
set -e
install -d -o linkforge -g linkforge -m 0700 /var/lib/linkforge
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart linkforge.service
fi
if [ "$1" = 1 ] || { [ "$1" = configure ] && [ -z "$2" ]; }; then
  cat <<'NEXT'
Linkforge is installed. Set LINKFORGE_PUBLIC_URL in /etc/linkforge/linkforge.env, start the service, and create an account:
  systemctl enable --now linkforge
  linkforge users create YOU@EXAMPLE.COM
NEXT
fi
