#!/bin/sh
# Waits until a running toolgauge knows whether a release is worse than the one before it:
#
#     release-gate.sh http://localhost:13133 3600 --base 1.0 --new 1.1
#
# Exit codes: 0 no worse, go on; 1 worse, roll back; 3 not known after so many seconds; 2 toolgauge could not be asked.
# What follows the seconds goes to `toolgauge compare`. It is asked every INTERVAL seconds (30): its test may be looked at often.
url=$1
deadline=$(($(date +%s) + $2))
shift 2
while true; do
    toolgauge compare --live "$url" "$@"
    code=$?
    # 0 and 1 are answers. 3 needs more conversations, and 2 may be a restart.
    case $code in 0 | 1) exit $code ;; esac
    if [ "$(date +%s)" -ge "$deadline" ]; then exit $code; fi
    sleep "${INTERVAL:-30}"
done
