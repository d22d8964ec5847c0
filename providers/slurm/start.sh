# start.sh DIR SSHD PORT... runs the SSH server of a job, on the node or in the job's container, at the first free port.
dir=$1 sshd=$2 pid=
shift 2
trap 'kill $pid; exit 143' TERM INT
if [ ! -x "$sshd" ]; then
	echo sshd >"$dir/failed"
	exit 1
fi
if ! ssh-keygen -q -t ed25519 -N '' -f "$dir/host_key" </dev/null; then
	echo keygen >"$dir/failed"
	exit 1
fi
for port; do
	: >"$dir/log"
	"$sshd" -D -e -f "$dir/sshd_config" -p "$port" 2>>"$dir/log" &
	pid=$!
	tries=0
	while [ $tries -lt 100 ] && kill -0 $pid 2>/dev/null; do
		if grep -q 'Server listening' "$dir/log"; then
			echo "$port" >"$dir/port.new"
			mv "$dir/port.new" "$dir/port"
			while kill -0 $pid 2>/dev/null; do wait $pid; done
			exit
		fi
		tries=$((tries + 1))
		sleep 0.05
	done
	kill $pid 2>/dev/null
done
echo listen >"$dir/failed"
exit 1
