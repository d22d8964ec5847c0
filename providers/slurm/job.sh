# The batch script of a node, after the lines that set its variables. It runs an SSH server of the user's own, on a free
# port, whose address and host key go into the job's comment, and waits for its end. See script.go for the variables.
export LC_ALL=C SLURM_TIME_FORMAT=%s
umask 077
job=$SLURM_JOB_ID dir= server= timer= links=()

# announce WORDS puts words after those of the driver in the job's comment. The driver may change the comment too.
announce() {
	local now try
	for try in 1 2 3 4 5; do
		now=$(squeue --noheader --jobs="$job" --format=%k) || now=
		case $now in "$gt_mark "*) gt_comment=$now ;; esac
		gt_comment=${gt_comment%% addr=*}
		gt_comment=${gt_comment%% failed=*}
		scontrol update JobId="$job" Comment="$gt_comment $*" && return
		sleep $((2 * try))
	done
	return 1
}

# give_up CODE ends the job with the reason in its comment.
give_up() {
	announce "failed=$1"
	exit 1
}

# mine PATH succeeds if something, or the link in its place, is this user's or root's. It sets mode.
mine() {
	local count uid rest
	read -r mode count uid rest <<<"$(ls -ldn -- "$1" 2>/dev/null)"
	case $uid in 0 | "$EUID") ;; *) return 1 ;; esac
}

# trusted FOLDER succeeds if a folder, and a link that leads to it, is this user's or root's, and others cannot replace what is in
# it. That its group can is the folder's purpose.
trusted() {
	local mode
	mine "$1" || return
	case $mode in
	l*) [ -d "$1" ] && trusted "$(readlink -f -- "$1")" ;;
	d???????w[!tT]*) return 1 ;;
	d*) ;;
	*) return 1 ;;
	esac
}

# settled PATH succeeds if a path leads to a folder, and only those whom its user trusts can have it lead elsewhere. Each folder on the
# way, and each link, may be another user's, such as a project's: its owner put it there, or whoever owns the folder above. But what
# is in a folder that everybody may write to must be this user's or root's, and that folder sticky.
settled() {
	local at= rest=${1#/}/ open= links=0 mode count uid others
	while :; do
		read -r mode count uid others <<<"$(ls -ldn -- "${at:-/}" 2>/dev/null)"
		case $uid in 0 | "$EUID") ;; *) [ -n "$uid" ] && [ -z "$open" ] || return 1 ;; esac
		open=
		case $mode in
		l*)
			links=$((links + 1)) && [ "$links" -le 40 ] || return 1
			rest=$(readlink -- "$at")/$rest
			case $rest in /*) ;; *) rest=${at%/*}/$rest ;; esac
			at= rest=${rest#/}
			continue
			;;
		d???????w[tT]*) open=1 ;;
		d???????w*) return 1 ;;
		d*) ;;
		*) return 1 ;;
		esac
		while :; do
			[ -n "$rest" ] || return 0
			case $rest in
			/* | ./*) rest=${rest#*/} ;;
			../*) rest=${at%/*}/${rest#../} at= rest=${rest#/} && continue 2 ;;
			*) break ;;
			esac
		done
		at=$at/${rest%%/*} rest=${rest#*/}
	done
}

# is_job FOLDER FILE succeeds if a folder is one that a job of this user has made, and has the file, if one is given. Nobody else can write to it,
# and a pipe, which would be waited for, is no file.
is_job() {
	[ ! -L "$1" ] && [ -d "$1" ] && [ -O "$1" ] || return 1
	[ -z "$2" ] || { [ ! -L "$1/$2" ] && [ -f "$1/$2" ]; } || return 1
	case $(ls -ld -- "$1") in drwx--[-S]---*) ;; *) return 1 ;; esac
}

# is_used LINK succeeds if another job of this user on the node has the link of a mount.
is_used() {
	local other
	for other in "$work"/gputrain-*; do
		[ "$other" != "$dir" ] && is_job "$other" links && grep -qxsF -- "$1" "$other/links" && return 0 # in a trap, return alone has the status from before it
	done
	return 1
}

# sweep SIGNAL FOLDER ends the processes of a job: those that work in its folder, or have it in their environment. On a cluster that
# does not end what has left its job, it also ends all that have this job's ID. It fails if there are none. One process looks at all of
# them: a job has KillWait for its end, which a process for each of a busy node's would take.
sweep() {
	local p pid found=1 words=(-e "GPUTRAIN_JOB=$2" -e "HOME=$2/home")
	[ "$gt_sweep" != 1 ] || [ "$2" != "$dir" ] || words+=(-e "SLURM_JOB_ID=$job")
	for p in $(grep -lxzF "${words[@]}" /proc/[0-9]*/environ; find /proc/[0-9]*/cwd -maxdepth 0 \( -lname "$2" -o -lname "$2/*" \)); do
		pid=${p#/proc/} pid=${pid%/*}
		[ "$pid" = $$ ] || [ ! -O "/proc/$pid" ] || { kill -s "$1" "$pid" && found=0; }
	done 2>/dev/null
	return $found
}

# erase FOLDER removes the folder of a job whose script has ended, or ends. A task may still write there, or may have closed a folder
# to itself. The file pid is the last to go: until then the next job on the node knows whose folder it is.
erase() {
	local try pid
	read -r pid <"$1/pid"
	for try in 1 2 3 4 5 6 7 8; do
		find "$1" -mindepth 1 -maxdepth 1 ! -name pid -exec rm -rf -- {} + && rm -f -- "$1/pid" && rmdir -- "$1"
		[ -d "$1" ] || return 0
		[ -z "$pid" ] || [ -e "$1/pid" ] || printf '%s\n' "$pid" >"$1/pid"
		chmod -R u+rwX "$1"
		sweep KILL "$1" || sleep 0.25
	done 2>/dev/null
	return 1
}

finish() {
	trap '' TERM INT USR2
	[ -z "$timer" ] || kill "$timer"
	[ -z "$server" ] || kill "$server"
	[ -z "$dir" ] || { sweep TERM "$dir" && sleep 0.5; }
	[ -z "$dir" ] || sweep KILL "$dir"
	local link
	for link in "${links[@]}"; do # the last job of the node that has it removes it
		is_used "$link" || rm -f "$link"
	done
	[ -z "$dir" ] || erase "$dir"
} 2>/dev/null
trap finish EXIT
trap 'exit 143' TERM INT

# notice records when a preempted job ends. A job whose time limit is near gets the same signal.
notice() {
	local ends
	ends=$(scontrol --oneliner show job "$job" | tr ' ' '\n' | sed -n 's/^PreemptTime=\([0-9]\)/yes/p; s/^EndTime=//p')
	case $ends in *yes*) printf '%s\n' "$ends" | grep -v yes >"$dir/notice" ;; esac
}
trap '[ -z "$dir" ] || notice' USR2 # without a trap it would end the shell

# is_over FOLDER succeeds if the job of a folder has ended on this node: its script's process is no more, or is another program's by now.
# Of a folder without a pid, the controller says whether its job is over.
is_over() {
	local host= pid= id=${1#"$work"/gputrain-} queue
	id=${id%%-*}
	if is_job "$1" pid && read -r host pid <"$1/pid" && [ "$pid" -gt 1 ]; then
		[ "$host" = "$(hostname)" ] || return 1
		! kill -0 "$pid" || ! grep -qxzF -- "SLURM_JOB_ID=$id" "/proc/$pid/environ"
		return
	fi
	is_job "$1" "" && [ ! -e "$1/pid" ] && [ ! -L "$1/pid" ] && [ -n "$id" ] && [ "$id" != "$job" ] || return 1
	queue=$(squeue --noheader --user="$EUID" --format=%A) || return 1
	case $'\n'$queue$'\n' in *$'\n'"$id"$'\n'*) return 1 ;; esac
}

# remove_stale removes what jobs have left that were killed on this node.
remove_stale() {
	local old
	for old in "$work"/gputrain-*; do
		is_over "$old" && { sweep KILL "$old"; erase "$old"; }
	done 2>/dev/null
}

work=$gt_work
remove_stale
mkdir -p "$work" && settled "$work" && { [ "$gt_work_given" = 1 ] || trusted "$work"; } && dir=$(mktemp -d "$work/gputrain-$job-XXXXXX") && mkdir "$dir/home" || give_up workdir
case $dir in *[!A-Za-z0-9_./+-]*) give_up workdir ;; esac
echo "$(hostname) $$" >"$dir/pid"
printf '%s\n' "$gt_start" >"$dir/start.sh"
printf '%s\n' "$gt_key" >"$dir/authorized_keys"

# make_folders FOLDER makes a folder. It fails if one on the way is another user's: he could have the path lead elsewhere.
make_folders() {
	local at= rest=$1/
	case $rest in "$work"/*) at=$work rest=${rest#"$work"/} ;; esac
	rest=${rest#/}
	while [ -n "$rest" ]; do
		at=$at/${rest%%/*} rest=${rest#*/}
		mkdir -- "$at" 2>/dev/null
		trusted "$at" || return
	done
}

# gt_mounts has pairs: a path of the node, and the link to it, which is empty if there is none.
for ((i = 0; i < ${#gt_mounts[@]}; i += 2)); do
	source=${gt_mounts[i]} target=${gt_mounts[i + 1]}
	[ -e "$source" ] || give_up "mount:$((i / 2 + 1))"
	[ -n "$target" ] || continue
	make_folders "${target%/*}" || give_up "mount:$((i / 2 + 1))"
	ln -sT "$source" "$target" || { [ -L "$target" ] && mine "$target" && [ "$(readlink "$target")" = "$source" ]; } || give_up "mount:$((i / 2 + 1))"
	links+=("$target")
	echo "$target" >>"$dir/links"
done

# What Setup changes reaches the sessions, and so do the job's own variables: without them tasks see no limits of GPUs.
declare -A before
for name in $(compgen -e); do before[$name]=${!name}; done
gt_setup
setenv="SetEnv HOME=\"$dir/home\" GPUTRAIN_JOB=\"$dir\""
for name in $(compgen -e); do
	case $name in
	HOME | PWD | OLDPWD | SHLVL | _ | LC_ALL | BASH_FUNC*) continue ;;
	SLURM_TIME_FORMAT) continue ;;
	PATH | SLURM_* | CUDA_VISIBLE* | ROCR_* | HIP_* | GPU_* | ZE_AFFINITY_MASK | TMPDIR) ;;
	*) [ "${before[$name]-unset}" != "${!name}" ] || continue ;;
	esac
	value=${!name}
	case $value in *$'\n'*) continue ;; esac
	value=${value//\\/\\\\}
	setenv+=" \"$name=${value//\"/\\\"}\""
done
cat >"$dir/sshd_config" <<END
HostKey $dir/host_key
AuthorizedKeysFile $dir/authorized_keys
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PidFile none
PrintMotd no
ClientAliveInterval 60
MaxSessions 64
MaxStartups 64
AcceptEnv *
Subsystem sftp internal-sftp
$setenv
END

ports=()
for i in 1 2 3 4 5 6 7 8 9 10; do
	ports+=($((gt_ports[0] + (RANDOM * 32768 + RANDOM) % (gt_ports[1] - gt_ports[0] + 1))))
done
gt_run sh "$dir/start.sh" "$dir" "$gt_sshd" "${ports[@]}" >"$dir/out" 2>&1 &
server=$!
while [ ! -s "$dir/port" ]; do
	if ! kill -0 $server 2>/dev/null; then
		give_up "$(cat "$dir/failed" 2>/dev/null || echo container)"
	fi
	sleep 0.05
done

addr=$(gt_address)
addr=${addr:-$(hostname)}
case $addr in *:*) addr="[$addr]" ;; esac
ready="addr=$addr:$(cat "$dir/port") key=$(cut -d' ' -f1,2 "$dir/host_key.pub" | tr ' ' ,) dir=$dir"
announce "$ready" || exit 1

# The driver may have changed the comment at the same moment, so it is read once more. And a job that no program has come
# to within a lease ends: its program was killed while the job waited.
deadline=$((SECONDS + gt_lease))
sleep $((gt_lease < 10 ? gt_lease : 10)) &
timer=$!
while kill -0 $server 2>/dev/null; do
	wait -n
	kill -0 $timer 2>/dev/null && continue
	case $(squeue --noheader --jobs="$job" --format=%k) in
	*" addr="* | "") ;;
	*) announce "$ready" ;;
	esac
	[ $SECONDS -lt $deadline ] || [ -d "$dir/home/.gputrain" ] || exit 143
	sleep "$gt_lease" &
	timer=$!
done
