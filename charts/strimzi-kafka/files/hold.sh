# What lets a killed broker of Strimzi's stay down for a while, and be killed again by its own process id.
#
# Strimzi's start script cannot be changed, but bash reads the file that BASH_ENV names before it runs a script, and the
# pod template may set that variable. So this file is read by every bash script of the container, and acts in two:
# kafka_run.sh, with which the container begins, and kafka-server-start.sh, whose process becomes the broker's.
# Whoever kills the broker writes the epoch second until which it is to stay down into `until` first.
dedup_hold() {
    local folder=${DEDUP_HOLD:-/mnt/hold} until latest
    case $0 in
    */kafka_run.sh)
        rm -f "$folder/pid"
        [ -e "$folder/until" ] || return 0
        trap 'exit 143' TERM # a held pod that is deleted goes at once
        latest=$(($(date +%s) + 600))
        until=$(cat "$folder/until")
        case $until in '' | *[!0-9]*) until=0 ;; esac
        echo "dedup: held down until epoch second $until, or $latest at the latest"
        while [ "$(date +%s)" -lt "$until" ] && [ "$(date +%s)" -lt "$latest" ]; do sleep 1; done
        trap - TERM
        rm -f "$folder/until"
        ;;
    */kafka-server-start.sh) echo $$ >"$folder/pid" ;;
    esac
}
dedup_hold
unset -f dedup_hold
