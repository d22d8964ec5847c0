# The node's side of a pool: opening it, watching its lease, and closing it. The
# client feeds this text to a POSIX shell and then calls gt_open and gt_ready, or
# gt_close. It must run under dash, bash and busybox ash, and on any Unix with
# POSIX's tools. A process costs about a millisecond, a builtin nothing.
#
# session.pl and runner.pl run the tasks if the node has perl. Otherwise tasks.sh
# does, which comes in the variable gt_plain.

# gt_stat PID sets gt_st to the start time of a process and fails if it does not run. A pid with its start time is never
# mistaken for a later process.
gt_stat() {
	gt_st=-
	if [ -r /proc/self/stat ]; then
		{ read -r gt_l <"/proc/$1/stat"; } 2>/dev/null || return 1
		gt_l=${gt_l##*) }
		set -- $gt_l
		[ "$1" != Z ] || return 1
		shift 19
		gt_st=$1
	else
		kill -0 "$1" 2>/dev/null
	fi
}

# gt_alive PID START
gt_alive() {
	[ "${1:-0}" -gt 1 ] 2>/dev/null && gt_stat "$1" && [ "$gt_st" = "$2" ]
}

# gt_self sets gt_me to the pid of this subshell ($$ is the main shell's). In t/ it does so without reading a line of
# /proc byte by byte.
gt_self() {
	if [ -n "${BASHPID-}" ]; then
		gt_me=$BASHPID
	elif [ "$gt_fds" = 1 ] && [ -n "${gt_root-}" ]; then
		cd -P /proc/self && gt_me=${PWD##*/} && cd "$gt_root/t" || exit 1
	elif [ -r /proc/self/stat ]; then
		read -r gt_me gt_l </proc/self/stat
	else
		gt_me=$(sh -c 'echo $PPID')
	fi
}

# gt_waits PID ID is true while PID is at the task. No other process has its .start as stdin, so a reused pid is not
# mistaken for it.
gt_waits() {
	[ "${1:-0}" -gt 1 ] 2>/dev/null || return 1
	if [ "$gt_fds" = 1 ]; then [ "/proc/$1/fd/0" -ef "$2.start" ]; else kill -0 "$1" 2>/dev/null; fi
}

# gt_fraction finds out whether sleep supports fractions of a second, when that is first needed.
gt_fraction() {
	[ -z "$gt_frac" ] || return 0
	gt_frac=0
	if sleep 0.001 2>/dev/null; then gt_frac=1; fi
}

# gt_sleep SECONDS rounds up if sleep supports whole seconds only.
gt_sleep() {
	gt_fraction
	if [ "$gt_frac" = 1 ]; then sleep "$1"; else sleep "$((${1%.*} + 1))"; fi
}

# gt_end PID TENTHS ends a process group: TERM, and KILL after TENTHS tenths of a second. It returns as soon as the
# group is gone.
gt_end() {
	gt_n=500
	until kill -TERM "-$1"; do
		# A process without its group has not reached setsid yet, which takes seconds on a busy machine.
		[ "$gt_n" -gt 0 ] && kill -0 "$1" || return 0
		gt_sleep 0.02
		gt_n=$((gt_n - 1))
	done
	kill -CONT "-$1"
	gt_fraction
	gt_n=$2
	while kill -0 "-$1"; do
		if [ "$gt_n" -le 0 ]; then
			kill -KILL "-$1"
			break
		fi
		if [ "$gt_frac" = 1 ]; then
			if [ "$gt_n" = "$2" ]; then sleep 0.02; else sleep 0.1; fi
			gt_n=$((gt_n - 1))
		else
			sleep 1
			gt_n=$((gt_n - 10))
		fi
	done 2>/dev/null
	gt_n=10
	while [ "$gt_n" -gt 0 ] && kill -0 "-$1"; do
		gt_sleep 0.05
		gt_n=$((gt_n - 1))
	done 2>/dev/null
} 2>/dev/null

# gt_see finds out whether /proc shows what a process has open. Its stdin is /dev/null.
gt_see() {
	gt_fds=0 gt_frac=
	if [ "/proc/$$/fd/0" -ef /dev/null ]; then gt_fds=1; fi 2>/dev/null
}

# gt_mine PID is true for a process that this user started, even if it runs as another user. It is false for one that
# another user started and that runs as this one.
gt_mine() {
	gt_k=
	while read -r gt_k gt_v gt_l; do
		[ "$gt_k" != Uid: ] || break
	done <"/proc/$1/status"
	[ "$gt_k" = Uid: ] && [ "$gt_v" = "${gt_uid:=$(id -u)}" ]
}

# gt_marked PID NAME=VALUE is true for a process of this node with that variable. Any process can have the variable: one
# with the node's token too is the node's, one with another token is another node's, and one without a token must be
# this user's. The token is not passed to a command, whose arguments every user can read.
gt_marked() {
	gt_a=$(tr '\n\0' ' \n' <"/proc/$1/environ" | while IFS= read -r gt_v; do
		case $gt_v in
		"$2") echo V ;;
		"GPUTRAIN_NODE_TOKEN=$GPUTRAIN_NODE_TOKEN") echo T ;;
		GPUTRAIN_NODE_TOKEN=*) echo O ;;
		esac
	done)
	case $gt_a in *V*) ;; *) return 1 ;; esac
	if [ -n "$GPUTRAIN_NODE_TOKEN" ]; then
		case $gt_a in
		*T*) return 0 ;;
		*O*) return 1 ;;
		esac
	fi
	gt_mine "$1"
}

# gt_strays NODE kills every process of the node except the calling shell: one machine may carry several nodes, and
# other users' processes. Only Linux shows them. Busybox's grep reads a line up to its first NUL, so grep must treat
# variables as lines.
gt_strays() {
	gt_n=0
	gt_self
	while [ "$gt_n" -lt 20 ]; do
		gt_hit=0
		for gt_f in $(grep -lszF "GPUTRAIN_NODE=$1" /proc/[0-9]*/environ); do
			gt_p=${gt_f#/proc/}
			gt_p=${gt_p%/environ}
			[ "$gt_p" != "$gt_me" ] || continue
			gt_marked "$gt_p" "GPUTRAIN_NODE=$1" || continue
			gt_stat "$gt_p" || continue
			kill -s KILL "$gt_p" && gt_hit=1
		done
		[ "$gt_hit" = 1 ] || return 0
		gt_n=$((gt_n + 1))
		gt_sleep 0.05
	done
} 2>/dev/null </dev/null

# gt_fence GENERATION records the highest generation of clients that has come to this pool, in place, which works even
# if the disk is full. It returns 1 if a higher one has come before, and 2 if it cannot be recorded.
gt_fence() {
	gt_o=
	[ ! -e owner ] || read -r gt_o gt_l <owner
	[ "${gt_o:-0}" -le "$1" ] || return 1
	[ "$gt_o" = "$1" ] || printf '%-19s;\n' "$1" 1<>owner || return 2
} 2>/dev/null

# gt_stop WHY ends the commands that run and that no runner follows, and leaves a file of each that says why.
gt_stop() {
	for gt_f in *.start; do
		[ ! -e "${gt_f%.start}.status" ] || continue
		gt_p= gt_w=
		{ read -r gt_w gt_l && read -r gt_p; } <"$gt_f"
		gt_waits "$gt_w" "${gt_f%.start}" || continue
		: >"${gt_f%.start}.$1"
		[ -z "$gt_p" ] || gt_end "$gt_p" 20 &
	done
	wait
}

# gt_endall NODE ends all tasks of the node whose t/ is the current directory.
gt_endall() {
	if [ -e runner ]; then
		gt_p= gt_q=
		read -r gt_p gt_q gt_l <runner
		gt_n=200
		! gt_alive "$gt_p" "$gt_q" || kill -s TERM "$gt_p"
		while [ "$gt_n" -gt 0 ] && gt_alive "$gt_p" "$gt_q"; do
			gt_sleep 0.02
			gt_n=$((gt_n - 1))
		done
		! gt_alive "$gt_p" "$gt_q" || kill -s KILL "$gt_p"
	fi
	gt_stop cancel
	gt_last "$1"
	gt_strays "$1"
} 2>/dev/null </dev/null

# gt_cut ends what runs on a node whose lease has lapsed, and keeps what has ended until a client is told, or the machine
# is gone: its tasks are "lapsed". A client that comes again has the node back.
gt_cut() {
	gt_depose 0
	if [ -e runner ]; then
		gt_p= gt_q=
		read -r gt_p gt_q gt_l <runner
		! gt_alive "$gt_p" "$gt_q" || kill -s USR1 "$gt_p"
	fi
	gt_stop lapsed
} 2>/dev/null </dev/null

# gt_last NODE runs the text that the client has left for the end, end.sh, and kills it after a minute, with what it has
# started: by its process group, if this shell makes one without a terminal, and by its mark, which gt_strays looks for.
# Text that has succeeded is removed: end.log, beside it, has what it printed.
gt_last() {
	[ -s end.sh ] || return 0
	set -m
	{ GPUTRAIN_NODE=$1 GPUTRAIN_NODE_TOKEN=$GPUTRAIN_NODE_TOKEN sh ./end.sh && rm -f end.sh; } >end.log 2>&1 &
	gt_p=$! gt_n=600
	set +m
	gt_fraction
	while [ "$gt_n" -gt 0 ] && [ -e end.sh ] && gt_stat "$gt_p"; do
		gt_sleep 0.1
		gt_n=$((gt_n - 1))
		[ "$gt_frac" = 1 ] || gt_n=$((gt_n - 9))
	done
	if [ -e end.sh ] && gt_stat "$gt_p"; then
		kill -s KILL "-$gt_p" || kill -s KILL "$gt_p"
		echo "it was killed after a minute" >>end.log
	fi
}

# gt_kill PID WHAT kills a process, and the watcher's children too if the kernel lists them: it is stopped first, so
# that no child's pid is reused. If its sleep were left, gt_strays would look at all processes twice.
gt_kill() {
	gt_l=
	if [ "$2" = watch ]; then
		kill -s STOP "$1"
		read -r gt_l <"/proc/$1/task/$1/children"
	fi
	kill -s KILL "$1" $gt_l
} 2>/dev/null

# gt_close ROOT NODE REMOVE GENERATION ends everything of the node, and with REMOVE 1 removes everything of it. Without
# a ROOT it looks in all possible places. If a client of a higher generation has come, it changes nothing.
gt_close() {
	gt_see
	if [ -z "$1" ]; then
		gt_q=${TMPDIR:-/tmp}/gputrain-$(id -u)
		for gt_f in "${HOME:-/nonexistent}/.gputrain" "$gt_q" "$gt_q"-*; do
			gt_l=$(gt_close "$gt_f/pools/$2" "$2" "$3" "$4") || { echo "$gt_l"; return 1; }
		done
		echo "$gt_l"
		return
	fi
	GPUTRAIN_NODE_TOKEN=
	if gt_ours "$1" && cd "$1/t" 2>/dev/null; then
		[ ! -s mark ] || read -r GPUTRAIN_NODE_TOKEN <mark
		gt_fence "$4"
		[ $? != 1 ] || { echo fenced; return 1; }
		: >../disarmed
		# The reporter and the watcher end first: nothing is started from now on.
		for gt_f in ctl watch; do
			gt_p= gt_q= gt_r= gt_w=
			{ read -r gt_p gt_q gt_r gt_w gt_l <"$gt_f"; } 2>/dev/null
			if gt_alive "$gt_p" "$gt_q"; then kill -KILL "-$gt_p" || gt_kill "$gt_p" "$gt_f"; fi 2>/dev/null
			if gt_alive "$gt_r" "$gt_w"; then kill -s KILL "$gt_r"; fi
		done
		gt_endall "$2"
		if [ -s end.sh ]; then
			{ echo "$1/t/end.sh, which is run at the end, has failed:"; tail -n 5 end.log; } >&2
			return 1
		fi
		cd /
	else
		gt_strays "$2"
	fi
	if [ "$3" = 1 ] && gt_ours "$1"; then
		gt_remove "$1"
		[ ! -e "$1" ] || { echo "cannot remove $1" >&2; return 1; }
	fi
	echo closed
} </dev/null

gt_remove() {
	rm -rf -- "$1" 2>/dev/null || { chmod -R u+rwx "$1"; rm -rf -- "$1"; }
	case $1 in */pools/*)
		gt_f=${1%/*}
		rmdir "$gt_f" "${gt_f%/*}/cache" "${gt_f%/*}"
		;;
	esac
} 2>/dev/null

# gt_ours DIR is true for a folder of this user, and false for a link: another user may have made the name first, in a
# folder that all users share.
gt_ours() {
	[ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]
}

# gt_private DIR... makes folders, the first of which only this user can enter.
gt_private() {
	if [ -e "$1" ] || [ -L "$1" ]; then gt_ours "$1" || return; fi
	(umask 077 && exec mkdir -p "$@") 2>/dev/null && gt_ours "$1" && [ -w "$1" ]
}

# gt_temporary sets gt_base to a folder of this user alone in the one for temporary files, and makes it: under a name
# that cannot be guessed, if another user has made the usual one.
gt_temporary() {
	gt_k=${TMPDIR:-/tmp}/gputrain-$(id -u)
	for gt_base in "$gt_k" "$gt_k"-*; do
		! gt_ours "$gt_base" || return 0
	done
	gt_base=$gt_k
	if mkdir -m 700 "$gt_base" || gt_ours "$gt_base"; then return 0; fi
	gt_random || gt_v=$$
	gt_base=$gt_k-$gt_v
	mkdir -m 700 "$gt_base"
} 2>/dev/null

# gt_random sets gt_v to a text that cannot be guessed, and fails if the system has no such file.
gt_random() {
	[ -r /proc/sys/kernel/random/uuid ] && read -r gt_v </proc/sys/kernel/random/uuid
}

# gt_place NODE makes gt_root, and chooses it if that is empty, and sets gt_base above it.
gt_place() {
	if [ -n "$gt_root" ]; then
		gt_base=$gt_root
		gt_private "$gt_root" "$gt_root/t" "$gt_root/s" "$gt_root/work"
		return
	fi
	gt_base=${HOME:-/nonexistent}/.gputrain
	if [ -d "${HOME-}" ] && gt_private "$gt_base/pools/$1" "$gt_base/pools/$1/t" "$gt_base/pools/$1/s" "$gt_base/pools/$1/work"; then
		gt_root=$gt_base/pools/$1
		return
	fi
	rmdir "$gt_base/pools" "$gt_base" 2>/dev/null
	gt_temporary || return
	gt_root=$gt_base/pools/$1
	gt_private "$gt_root" "$gt_root/t" "$gt_root/s" "$gt_root/work" && gt_ours "$gt_base"
}

# gt_token HOW sets and exports the token that proves that a process is the node's. The first session makes it:
# session.pl and the tasks inherit it.
gt_token() {
	unset GPUTRAIN_NODE_TOKEN
	[ -s mark ] || [ "$1" != start ] || ! gt_random || echo "$gt_v" >mark || return
	GPUTRAIN_NODE_TOKEN=
	[ ! -s mark ] || read -r GPUTRAIN_NODE_TOKEN <mark
	[ -z "$GPUTRAIN_NODE_TOKEN" ] || export GPUTRAIN_NODE_TOKEN
}

# gt_boot sets gt_bt to a value that differs after each boot of the machine, or of the container.
gt_boot() {
	gt_bt=-
	if [ -r /proc/sys/kernel/random/boot_id ]; then read -r gt_bt </proc/sys/kernel/random/boot_id; fi
	gt_stat 1
	gt_bt="$gt_bt $gt_st"
} 2>/dev/null

# gt_perl is true if session.pl can run: no variable may make perl do anything but execute its program.
gt_perl() {
	[ -r /proc/uptime ] && command -v perl && [ -z "${PERL5OPT-}${PERL5DB-}${PERL_UNICODE-}${PERLIO-}" ]
} >/dev/null

# gt_depose PID ends the session that had the node before, unless it is PID's. It sets gt_new to 1 if that one had not
# recorded its reporter yet.
gt_depose() {
	gt_p= gt_q= gt_r= gt_w=
	[ ! -e ctl ] || read -r gt_p gt_q gt_r gt_w gt_l <ctl
	[ "$gt_p" != "$1" ] || return 0
	if gt_alive "$gt_p" "$gt_q"; then
		[ "$gt_r" != 0 ] || gt_new=1
		kill -s KILL "$gt_p"
	fi
	if gt_alive "$gt_r" "$gt_w"; then kill -s KILL "$gt_r"; fi
}

# gt_enter makes this session the one that has the node. Of two that come at the same time, one of the higher generation
# stays: each first records which is its own, then can be deposed, and then checks whether the other has recorded
# itself. A session that is deposed all the same, by one that had passed the fence before, comes again.
gt_enter() {
	gt_stat "$$"
	gt_k=$gt_st gt_new=0
	while :; do
		gt_fence "$gt_gen"
		case $? in
		1) echo "E fenced"; return 1 ;;
		2) echo "E full"; return 1 ;;
		esac
		gt_depose "$$"
		echo "$$ $gt_k 0 0 ;" 1<>ctl || { echo "E full"; return 1; }
		gt_o=
		read -r gt_o gt_l <owner
		[ "$gt_o" != "$gt_gen" ] || return 0
	done
}

# gt_open ROOT NODE HOW VERSION GENERATION BEAT INTERVAL LEASE TTL SELFDESTRUCT DISK
# SESSION RUNNER takes the node over. HOW is "start" for the first session of the
# client that makes the pool's folder, "attach" for the first one of a later client,
# and "again" for all others. SESSION and RUNNER are the texts of session.pl and
# runner.pl, or empty if these are not wanted.
#
# Files, in t/ of the pool's folder. They keep the first client's settings, whatever
# a later one asks for; the first word of "pool" is the version of all others, for
# ever:
#   pool    "version interval lease ttl folder": the watcher's settings, and the
#           folder above that of caches
#   owner   the highest generation that has come
#   lease   the last beat
#   up      for how many seconds the watcher has watched, if there is a TTL
#   watch   "pid start-time ;" of the watcher
#   ctl     "pid start-time reporter-pid start-time ;" of the session
#   mark    the text that only the node's processes have in their environment
gt_open() {
	gt_name=$2 gt_root=$1 gt_gen=$5 gt_mode= gt_pl=0
	gt_see
	case $gt_root in '' | /*) ;; *) gt_root=$HOME/$gt_root ;; esac
	if [ "$3" = start ]; then
		if [ -n "${12}" ] && gt_perl; then gt_pl=1; fi
		gt_place "$2" || { echo "E root"; return 1; }
	else
		gt_ours "$gt_root" || { echo "E gone"; return 1; }
		[ ! -e "$gt_root/session.pl" ] || gt_pl=1
	fi
	cd "$gt_root/t" 2>/dev/null || { echo "E gone"; return 1; }
	gt_version=
	[ ! -s pool ] || read -r gt_version gt_interval gt_lease gt_ttl gt_base <pool
	if [ -z "$gt_version" ]; then
		[ ! -e boot ] || { echo "E version 1"; return 1; }
		[ "$3" = start ] || { echo "E gone"; return 1; }
		gt_version=$4 gt_interval=$7 gt_lease=$8 gt_ttl=$9
		echo "$4 $7 $8 $9 $gt_base" >pool || { echo "E full"; return 1; }
	fi
	[ "$gt_version" = "$4" ] || { echo "E version $gt_version"; return 1; }
	gt_enter || return
	[ ! -e ../disarmed ] || { echo "E gone"; return 1; }
	gt_boot
	gt_l=
	[ ! -s boot ] || read -r gt_l <boot
	[ -z "$gt_l" ] || [ "$gt_l" = "$gt_bt" ] || { echo "E restarted"; return 1; }
	[ -n "$gt_l" ] || echo "$gt_bt" >boot
	echo "$6" 1<>lease
	[ -e gen ] || echo 10000000 >gen
	gt_token "$3" || { echo "E full"; return 1; }
	if [ "$gt_pl" = 0 ]; then
		eval "$gt_plain"
		gt_tools
	fi
	gt_arm "${10}" || { echo "E full"; return 1; }
	[ "$3" = again ] || gt_facts "${11}"
	if [ "$gt_pl" = 1 ]; then
		[ "$3" != start ] || { printf %s "${13}" >../runner.pl && printf %s "${12}" >../session.pl; } || { echo "E full"; return 1; }
		return
	fi
	[ ! -e ../session.pl ] || rm -f ../session.pl # a perl that cannot do what is asked of it
	[ "$gt_mode" != none ] || { echo "E setsid"; return 1; }
	command -v od >/dev/null || { echo "E od"; return 1; }
	read -r gt_g <gen
	# A session that was deposed before it had recorded its reporter has left it, with the session's stdout.
	if [ "$gt_new" = 1 ] && [ -e "bell.$gt_g" ]; then gt_say Q 4<>"bell.$gt_g"; fi
	gt_old=$gt_g gt_g=$((gt_g + 1))
	[ ! -e "bell.$gt_g" ] || rm -f "bell.$gt_g"
	mkfifo -m 600 "bell.$gt_g" || { echo "E full"; return 1; }
	# In place, not truncated: this works also when the disk is full.
	echo "$gt_g" 1<>gen
	[ ! -e "bell.$gt_old" ] || rm -f "bell.$gt_old"
	gt_lc=
	if [ "${LC_ALL+x}" = x ]; then gt_lc=set gt_lcall=$LC_ALL; fi
	gt_oomfind
} </dev/null

# gt_ready becomes the runner's session, or starts the reporter: from here on it alone has the session's stdout, and no
# process its stderr, so that the client sees its death as the end of output.
gt_ready() {
	if [ "$gt_pl" = 1 ]; then
		export PERL_BADLANG=0
		exec perl ../session.pl "$gt_root" 2>/dev/null
	fi
	exec 4<>"bell.$gt_g"
	LC_ALL=C
	echo "H $gt_g sh"
	gt_reporter </dev/null 2>/dev/null &
	gt_r=$!
	exec >/dev/null 2>&1
	gt_stat "$$"
	gt_q=$gt_st
	gt_stat "$gt_r"
	echo "$$ $gt_q $gt_r $gt_st ;" 1<>ctl
	trap 'gt_say Q' EXIT
}

# gt_arm SELFDESTRUCT starts the watcher, unless it runs. The watcher counts its own sleeps, so that no change of the
# clock matters, and continues the count of a watcher that was killed.
gt_arm() {
	gt_p= gt_q=
	[ ! -e watch ] || read -r gt_p gt_q gt_l <watch
	if gt_alive "$gt_p" "$gt_q"; then return 0; fi
	if [ "$gt_mode" = m ]; then set -m; fi
	[ -s up ] || printf '%-19s;\n' 0 >up || return
	(gt_watch "$1") </dev/null >/dev/null 2>&1 &
	gt_p=$!
	set +m
	gt_stat "$gt_p"
	echo "$gt_p $gt_st ;" >watch
}

# With the text "keep" as SELFDESTRUCT the machine can neither end itself nor is it anyone's: at the end of its lease it
# only ends what runs. It ends everything at the end of its TTL, and if text is left for the end, which removes what a
# folder does not hold.
gt_watch() {
	set +m
	trap '' HUP INT QUIT PIPE
	gt_age=0 gt_last= gt_was=0 gt_beats=0 gt_lapsed=0
	read -r gt_up gt_l <up
	while [ "$gt_ttl" = 0 ] || [ "$gt_up" -lt "$gt_ttl" ]; do
		if [ "$gt_age" -ge "$gt_lease" ]; then
			[ "$1" = keep ] && [ ! -s end.sh ] || break
			[ "$gt_lapsed" = 1 ] || gt_cut
			gt_lapsed=1
		fi
		sleep "$gt_interval"
		[ -e "$gt_root/t" ] && [ ! -e "$gt_root/disarmed" ] || exit 0
		gt_up=$((gt_up + gt_interval))
		[ "$gt_ttl" = 0 ] || printf '%-19s;\n' "$gt_up" 1<>up
		gt_l=
		read -r gt_l <lease
		if [ "$gt_l" != "$gt_last" ]; then
			gt_last=$gt_l gt_age=0 gt_lapsed=0
		elif [ "$gt_lapsed" = 1 ]; then
			:
		elif gt_held; then
			gt_age=0 gt_was=1
			gt_renew
		else
			# The task that held it has ended since the last look: the lease counts from here.
			if [ "$gt_was" = 1 ]; then gt_age=0; else gt_age=$((gt_age + gt_interval)); fi
			gt_was=0
		fi
	done
	: >../disarmed
	gt_lapse
	if [ -n "$1" ] && [ "$1" != keep ]; then eval "$1"; fi
	if [ -z "$1" ] || [ "$1" = keep ] || [ -n "${GPUTRAIN_REMOVE-}" ]; then
		cd /
		gt_remove "$gt_root"
	fi
}

# gt_held is true while a task runs that holds the lease. The process that waits for such a task has written itself into
# ID.hold: "pid start-time ;".
gt_held() {
	for gt_f in *.hold; do
		gt_p= gt_q=
		read -r gt_p gt_q gt_l <"$gt_f" || continue
		! gt_alive "$gt_p" "$gt_q" || return 0
	done
	return 1
} 2>/dev/null

# gt_renew renews the lease of the node in whose folder this one's is, if there is one, by a beat that no client sends.
gt_renew() {
	[ -s "$gt_root/../t/lease" ] || return 0
	gt_beats=$((gt_beats + 1))
	printf '%012d\n' "$gt_beats" 1<>"$gt_root/../t/lease"
} 2>/dev/null

# gt_lapse ends everything of the node but the watcher.
gt_lapse() {
	gt_depose 0
	gt_endall "$gt_name"
}

# gt_facts DISK reports the node's facts, and then lists NVIDIA's devices. With DISK 1 it reports the free space too,
# which takes a process. The runner's session adds the facts that take processes here.
gt_facts() {
	gt_disk=$1 gt_all=
	if [ "$gt_pl" = 0 ]; then
		set -- "$(uname -s)" "$(uname -m)"
		gt_cpus
		gt_all="F os $1
F arch $2
F uid ${EUID:-$(id -u)}
F cpus $gt_v
"
	fi
	gt_all="${gt_all}F home ${HOME-}
F root $gt_root
F lease $gt_lease
F cache $gt_base/cache
F path $PATH
"
	if [ -r /proc/meminfo ]; then
		while read -r gt_k gt_v gt_l; do
			[ "$gt_k" != MemTotal: ] || break
		done </proc/meminfo
		gt_all="${gt_all}F memory $((gt_v * 1024))
"
	else
		gt_all="${gt_all}F memory $(sysctl -n hw.memsize)
"
	fi
	for gt_f in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
		if read -r gt_v <"$gt_f"; then gt_all="${gt_all}F limit $gt_v
"; fi
	done
	if [ "$gt_disk" = 1 ]; then
		set -- $(df -Pk "$gt_root/work")
		gt_all="${gt_all}F df $*
"
	fi
	for gt_f in tar gzip sha256sum shasum openssl od nvidia-smi; do
		if command -v "$gt_f" >&2; then gt_all="${gt_all}F tool $gt_f
"; fi
	done
	if [ -e /dev/kfd ]; then
		# AMD's accelerators are the nodes of the kernel's compute driver that have SIMD units; the others are
		# processors. HIP_VISIBLE_DEVICES counts alike:
		# https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html
		gt_n=0
		for gt_f in /sys/class/kfd/kfd/topology/nodes/*/properties; do
			while read -r gt_k gt_v gt_l; do
				if [ "$gt_k" = simd_count ] && [ "$gt_v" -gt 0 ]; then gt_n=$((gt_n + 1)); fi
			done <"$gt_f"
		done
		gt_all="${gt_all}F amd $gt_n
"
	fi
	case ${CUDA_VISIBLE_DEVICES-} in
	*[!0-9A-Za-z,-]* | '') ;;
	*) gt_all="${gt_all}F visible $CUDA_VISIBLE_DEVICES
" ;;
	esac
	printf %s "$gt_all"
	case $gt_all in
	*"F tool nvidia-smi"*) nvidia-smi -L | while IFS= read -r gt_v || [ -n "$gt_v" ]; do echo "F nvidia $gt_v"; done ;;
	esac
} 2>/dev/null

# gt_cpus sets gt_v to the number of processors that this shell may use.
gt_cpus() {
	gt_l=
	case ${BASH_VERSION-} in
	4.[1-9]* | [5-9].*) IFS= read -r -N 8192 gt_l </proc/self/status ;;
	esac
	case $gt_l in
	*Cpus_allowed_list:*)
		gt_l=${gt_l##*Cpus_allowed_list:?}
		gt_l=${gt_l%%[!0-9,-]*} gt_v=0
		while [ -n "$gt_l" ]; do
			gt_f=${gt_l%%,*}
			gt_v=$((gt_v + ${gt_f#*-} - ${gt_f%-*} + 1))
			case $gt_l in *,*) gt_l=${gt_l#*,} ;; *) gt_l= ;; esac
		done
		;;
	*) gt_v=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null) ;;
	esac
}
