# gputrain-usage MODE samples the accelerators of this machine every ten seconds, and follows its kernel's log, until its stdin
# ends, or its stdout. With the mode "once" it samples them once. Its stdout has one of these lines:
#   tool NAME FIELDS         what samples come from, and which values a row of nvidia-smi has
#   kernel HOW LINE          how the log is read, and the last line of it before that
#   ended CODE               the tool has ended
#   json, and end CODE       around an output of amd-smi or rocm-smi
#   drm INDEX PCI ...        a device of AMD by the kernel, and "end" after the last
# and the tool's own rows and messages. Its stderr has the log's lines about accelerators.
mode=$1
exec 3<&0 </dev/null

# run runs a command that TERM can end, also if TERM comes before the shell has noted the command's process.
p= before=
run() { before=$! p=next; "$@" & p=$!; wait "$p"; code=$?; p=; return "$code"; }
begin() { exec 3<&-; trap stop TERM; }
stop() {
	[ "$p" != next ] || { p=$!; [ "$p" != "$before" ] || p=; }
	[ -z "$p" ] || kill -9 "$p" 2>/dev/null
	exit
}
say() { echo "$*" || kill "$$"; }

smi() { run nvidia-smi "$1" --format=csv,noheader,nounits $2 2>&1; }
knows() { smi "--query-gpu=$1" >/dev/null; }

# nvidia_fields finds the fields that this driver knows.
nvidia_fields() {
	fields=index,uuid,pci.bus_id,name,memory.used,memory.total
	rest='utilization.gpu utilization.memory temperature.gpu power.draw clocks.sm ecc.errors.uncorrected.volatile.total'
	all=$fields
	for field in $rest; do all=$all,$field; done
	for reasons in clocks_event_reasons.active clocks_throttle_reasons.active; do
		if knows "$all,$reasons"; then fields=$all,$reasons; return; fi
	done
	for field in $rest clocks_event_reasons.active clocks_throttle_reasons.active; do
		if knows "$field"; then
			fields=$fields,$field
			[ "$field" != clocks_event_reasons.active ] || return 0
		fi
	done
}

remapped() {
	smi --query-gpu=pci.bus_id,remapped_rows.pending,remapped_rows.failure ||
		smi --query-remapped-rows=gpu_bus_id,remapped_rows.pending,remapped_rows.failure
}

nvidia() {
	begin
	while :; do
		nvidia_fields
		say tool nvidia-smi "$fields"
		if [ "$mode" = once ]; then
			smi "--query-gpu=$fields"
			say ended "$code"
			remapped
			exit
		fi
		smi "--query-gpu=$fields" '-l 10'
		say ended "$code"
		run sleep 30
	done
}

nvidia_remapped() {
	begin
	while :; do
		remapped
		run sleep 3600
	done
}

json() {
	say json
	run "$@" 2>/dev/null
	say end "$code"
	return "$code"
}

drm() {
	found=1 i=0
	for card in /sys/class/drm/card[0-9]*; do
		[ -r "$card/device/gpu_busy_percent" ] || continue
		busy='' used='' total=''
		read -r busy <"$card/device/gpu_busy_percent"
		read -r used <"$card/device/mem_info_vram_used"
		read -r total <"$card/device/mem_info_vram_total"
		pci=$(cd -P "$card/device" && pwd)
		say drm "$i" "${pci##*/}" "${busy:-?}" "${used:-?}" "${total:-?}"
		found=0 i=$((i+1))
	done 2>/dev/null
	say end "$found"
	return "$found"
}

amd() {
	begin
	tool=
	while :; do
		case $tool in
		'')
			tool=amd-smi
			if command -v amd-smi >/dev/null; then
				say tool amd-smi
				json amd-smi list --json
				continue
			fi
			tool=rocm-smi
			! command -v rocm-smi >/dev/null || say tool rocm-smi
			continue ;;
		amd-smi)
			json amd-smi metric --json || { tool=rocm-smi; say tool rocm-smi; continue; } ;;
		rocm-smi)
			if command -v rocm-smi >/dev/null && json rocm-smi --showuse --showmemuse --showmeminfo vram --showtemp --showpower --showbus --json; then :
			else
				tool=drm; say tool drm; continue
			fi ;;
		drm) drm || { say tool none; exit; } ;;
		esac
		[ "$mode" != once ] || exit 0
		run sleep 30
	done
}

# matching prints the lines that are about accelerators.
matching() {
	while IFS= read -r line; do
		case $line in
		*NVRM:*Xid* | *NVRM:*"fallen off the bus"* | *amdgpu*timeout* | *amdgpu*"GPU reset"* | *amdgpu*uncorrectable*)
			printf '%s\n' "$line" >&2 || exit ;;
		esac
	done
}

# follow runs a command until stdin ends.
follow() {
	"$@" 2>/dev/null &
	p=$!
	while read -r line <&3; do :; done
	kill -9 "$p" 2>/dev/null
}

kernel() {
	if last=$(dmesg 2>/dev/null | tail -n 1) && dmesg >/dev/null 2>&1; then
		case $(dmesg --help 2>&1) in
		*--follow*)
			say kernel dmesg "$last"
			follow dmesg --follow | matching &
			return ;;
		esac
	fi
	if (: </dev/kmsg) 2>/dev/null; then
		if [ -z "$last" ]; then
			read -r last rest 2>/dev/null </proc/uptime
			last="[$last]"
		fi
		say kernel kmsg "$last"
		follow cat /dev/kmsg | matching &
		return
	fi
	last=$(journalctl -k -q -n 1 -o short-unix 2>/dev/null) && case $last in
	'' | --*) ;;
	*)
		say kernel journalctl "$last"
		follow journalctl -kf -q -n 50 -o short-unix | matching &
		return ;;
	esac
	say kernel unknown
}

# finish ends the other shells. One that has just begun may drop a TERM that comes before its own trap, so it gets more. It may also
# not be noted in others yet.
others=
finish() {
	trap '' TERM HUP INT PIPE
	for one in $others $!; do
		tries=0
		while kill "$one" 2>/dev/null && [ "$((tries += 1))" -lt 50 ]; do sleep 0.1 2>/dev/null || sleep 1; done
	done
	exit 0
}
trap finish TERM HUP INT PIPE
if command -v nvidia-smi >/dev/null; then
	nvidia &
	others=$!
	worker=$!
	[ "$mode" = once ] || { nvidia_remapped & others="$others $!"; }
else
	amd &
	others=$!
	worker=$!
fi
if [ "$mode" = once ]; then
	{ while read -r line <&3; do :; done; kill "$$"; } >/dev/null 2>&1 &
	wait "$worker"
	kill -9 "$!" 2>/dev/null
	exit 0
fi
kernel
while read -r line <&3; do :; done
finish
