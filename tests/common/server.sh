# A throwaway PostgreSQL that ends with the process that started it: orders come in on standard input, one
# a line, and when that pipe closes, however the other side died, the server stops and its folder goes.
# usage: server.sh BIN PORT [SETTINGS]   (SETTINGS: further lines of postgresql.conf)
set -u
bin=$1 port=$2 settings=${3-}
dir=$(mktemp -d /tmp/enlist-pg.XXXXXX) || exit 1
log=$dir/log
control() { "$bin/pg_ctl" -D "$dir/data" -w -t 60 "$@" </dev/null >>"$log" 2>&1; }
finish() { control -m immediate stop; rm -rf "$dir"; }
trap finish EXIT
# An answer to a dead process raises SIGPIPE.
trap 'exit 1' HUP INT TERM PIPE
cd "$dir" || exit 1

prepare() {
  "$bin/initdb" -D data -U enlist -A trust -E UTF8 --no-locale -N </dev/null >>"$log" 2>&1 || return 1
  cat >>data/postgresql.conf <<CONF
port = $port
listen_addresses = '127.0.0.1'
unix_socket_directories = '$dir'
max_connections = 200
fsync = off
synchronous_commit = on
password_encryption = 'scram-sha-256'
log_line_prefix = '%m [%p] %a '
$settings
CONF
  cat >data/pg_hba.conf <<HBA
host  all guarded 127.0.0.1/32 scram-sha-256
host  all all     127.0.0.1/32 trust
local all all                  trust
HBA
}

answer() { if "$@"; then echo ok; else echo failed; fi; }

if ! prepare; then
  cat "$log" >&2
  echo failed
  exit 1
fi
echo "$dir"
while read -r order; do
  case $order in
    start) answer control -l "$dir/server.log" start ;;
    kill) answer control -m immediate stop ;;
    *) echo failed ;;
  esac
done
