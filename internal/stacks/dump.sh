# $1 is a variable, NAME=VALUE. Busybox's grep reads a line up to its first NUL, so grep treats variables as lines, and x
# compares whole ones.
for f in $(grep -lszxF -e "$1" /proc/[0-9]*/environ 2>/dev/null); do
	p=${f%/environ}
	name=
	read -r name <"$p/comm" || continue
	echo "process ${p#/proc/} ($name)"
	# py-spy may be in an environment of Python that only the process has in its PATH.
	case $name in *py*)
		paths=$(tr '\0' '\n' <"$p/environ" | sed -n 's/^PATH=//p')
		spy=$(PATH=$paths:$PATH && command -v py-spy) && limit=$(command -v timeout) &&
			"$limit" 4 "$spy" dump --pid "${p#/proc/}" && continue
		;;
	esac
	grep -E '^(State|Threads|VmRSS):' "$p/status"
	n=0
	for t in "$p"/task/[0-9]*; do
		n=$((n + 1))
		[ "$n" -le 16 ] || { echo "and more threads"; break; }
		name= wait=
		read -r name <"$t/comm"
		read -r wait <"$t/wchan"
		echo "  thread ${t##*/} ($name) in ${wait:-?}"
	done
	sed 's/^/  /' "$p/stack"
done 2>/dev/null
