# $1 is a variable, NAME=VALUE. Busybox's grep reads a line up to its first NUL, so grep treats variables as lines, and x
# compares whole ones.
for f in $(grep -lszxF -e "$1" /proc/[0-9]*/environ 2>/dev/null); do
	p=${f%/environ}
	name=
	read -r name <"$p/comm" || continue
	rank=$(tr '\0' '\n' <"$p/environ" | sed -n 's/^RANK=\([0-9][0-9]*\)$/\1/p' | head -n 1)
	parent=$(sed -n 's/^PPid:[^0-9]*//p' "$p/status")
	echo "process ${p#/proc/} ($name)${rank:+ of rank $rank}${parent:+, child of $parent}"
	# py-spy may be in an environment of Python that only the process has in its PATH. It cannot look into a stopped process.
	state=$(sed -n 's/^State:[^A-Za-z]*\(.\).*/\1/p' "$p/status")
	case $state$name in [Tt]*) ;; *py* | ?pt_main*)
		paths=$(tr '\0' '\n' <"$p/environ" | sed -n 's/^PATH=//p')
		spy=$(PATH=$paths:$PATH && command -v py-spy) && limit=$(command -v timeout) &&
			"$limit" 4 "$spy" dump --pid "${p#/proc/}" && continue
		;;
	esac
	grep -E '^(State|Threads|VmRSS):' "$p/status"
	grep -qE '/dev/(nvidia|kfd|accel)' "$p/maps" && echo "  uses an accelerator"
	n=0
	for t in "$p"/task/[0-9]*; do
		n=$((n + 1))
		[ "$n" -le 16 ] || { echo "and more threads"; break; }
		name= wait=
		read -r name <"$t/comm"
		read -r wait <"$t/wchan"
		[ "${wait:-0}" != 0 ] || { wait=; read -r wait <"$t/syscall"; wait="system call ${wait%% *}"; }
		echo "  thread ${t##*/} ($name) in ${wait:-?}"
	done
	sed 's/^/  /' "$p/stack"
done 2>/dev/null
