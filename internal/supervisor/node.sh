# The node's side of commands. The client feeds this text to a POSIX shell and
# then keeps sending calls of its functions: gt_open once, gt_start for a task.
# It must run under dash, bash and busybox ash, and on any Unix with POSIX's
# tools. What runs for every task uses builtins only: a process costs about a
# millisecond, a builtin nothing.
#
# Where there is perl, tasks are runner.pl's, and what is here opens the node,
# watches its lease, and closes it. What follows is for where there is none.
#
# Files of a task, in t/ of the pool's folder:
#   ID.start   "wrapper-pid", then "command-pid", then whatever the wrapper's
#              shell prints: its word on a signal, and nothing else, since what
#              is newer than this file is the task's. Made with noclobber: who
#              makes it owns the task, so nothing runs twice.
#   ID.out ID.err   output that is long, or of a task that runs for a while
#   ID.in, ID.sh    stdin and a long script
#   ID.late ID.cancel   why it was signalled: its time was up, somebody asked.
#              What counts is that they exist, so they work on a full disk.
#   ID.status  "stdout stderr", then "code signal cause milliseconds ;": without
#              the ";" it is not there. Of each stream 0 says that it is empty, 1
#              that it is in its file.
#
# A task's stdout and stderr are pipes, as under plain ssh: opening /dev/stdout
# anew must not cut anything off. Copiers write what comes to files.
#
# What the client sees on stdout are frames, written by the reporter alone, who
# takes its orders from the FIFO bell.GENERATION: whole lines shorter than
# PIPE_BUF, each after its length in four digits and a space. All open it
# read-write, so that nobody ever blocks.

# gt_stat PID sets gt_st to the start time of a process and fails where it does
# not run. A pid with its start time is never mistaken for a later process.
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

# gt_self sets gt_me to the pid of this very subshell ($$ is the main shell's).
# In t/ it does so without reading a line of /proc byte by byte.
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

# gt_waits PID ID is true while PID is at the task. No other process has its
# .start as stdin, so a pid that was used again is not mistaken for it.
gt_waits() {
	[ "${1:-0}" -gt 1 ] 2>/dev/null || return 1
	if [ "$gt_fds" = 1 ]; then [ "/proc/$1/fd/0" -ef "$2.start" ]; else kill -0 "$1" 2>/dev/null; fi
}

# gt_fraction finds whether sleep knows parts of a second, when that is needed first.
gt_fraction() {
	[ -z "$gt_frac" ] || return 0
	gt_frac=0
	if sleep 0.001 2>/dev/null; then gt_frac=1; fi
}

# gt_sleep SECONDS rounds up where sleep knows whole seconds only.
gt_sleep() {
	gt_fraction
	if [ "$gt_frac" = 1 ]; then sleep "$1"; else sleep "$((${1%.*} + 1))"; fi
}

# gt_end PID TENTHS ends a process group: TERM, and KILL after so many tenths
# of a second. It returns as soon as the group is gone.
gt_end() {
	gt_n=50
	until kill -TERM "-$1"; do
		# A process that is there without its group has not come to setsid yet.
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

# gt_say LINE gives the reporter a line.
gt_say() {
	gt_len=000${#1}
	printf '%s %s\n' "${gt_len#"${gt_len%????}"}" "$1" >&4
}

# gt_ring LINE does so from where a task is waited for: after a takeover, the
# bell is another one.
gt_ring() {
	if [ -e "bell.$gt_g" ]; then gt_say "$1"; else read -r gt_n <gen && gt_say "$1" 4<>"bell.$gt_n"; fi
}

# gt_finish ID CODE SIGNAL CAUSE MS writes the status and rings. The ring carries
# the status too: it arrives also when the disk is full.
gt_finish() {
	gt_text=0
	[ ! -s "$1.out" ] || gt_text=1
	if [ -s "$1.err" ]; then gt_text="$gt_text 1"; else gt_text="$gt_text 0"; fi
	printf '%s\n' "$gt_text" "$2 $3 $4 $5 ;" >"$1.status" || gt_full=1
	gt_ring "D $1 $2 $3 $4 $5 ${gt_full:-0} $gt_text "
}

# gt_oom sets gt_oomk to how many processes the kernel ended for their memory.
gt_oom() {
	gt_oomk=0
	[ -z "$gt_oomfile" ] || while read -r gt_k gt_v; do
		[ "$gt_k" != oom_kill ] || gt_oomk=$gt_v
	done <"$gt_oomfile"
} 2>/dev/null

gt_oomfind() {
	gt_oomfile=
	while IFS=: read -r gt_k gt_c gt_p; do
		case "$gt_k,$gt_c," in
		0,,) set -- "/sys/fs/cgroup$gt_p/memory.events" /sys/fs/cgroup/memory.events ;;
		*,memory,*) set -- "/sys/fs/cgroup/memory$gt_p/memory.oom_control" /sys/fs/cgroup/memory/memory.oom_control ;;
		*) continue ;;
		esac
		for gt_f; do
			[ -r "$gt_f" ] && gt_oomfile=$gt_f && break
		done
		[ -z "$gt_oomfile" ] || return 0
	done </proc/self/cgroup
} 2>/dev/null

# gt_now sets gt_t to a time in hundredths of a second, or to nothing.
gt_now() {
	gt_t=
	if { read -r gt_t gt_l </proc/uptime; } 2>/dev/null; then gt_t=${gt_t%.*}${gt_t#*.}; fi
}

# gt_kill ID TENTHS ends a task, if its command was started.
gt_kill() {
	gt_p=
	{ read -r gt_l && read -r gt_p; } <"$1.start"
	[ -z "$gt_p" ] || gt_end "$gt_p" "$2"
} 2>/dev/null

# gt_timer ID SECONDS TENTHS ends a task that runs too long. TERM ends the
# timer, with its sleep.
gt_timer() {
	gt_o=$!
	gt_n=$2
	gt_fraction
	[ "$gt_frac" = 1 ] || gt_n=$((${2%.*} + 1))
	trap '[ "$!" = "$gt_o" ] || kill -s KILL "$!"; exit 0' TERM
	sleep "$gt_n" &
	wait "$!"
	gt_o=$!
	[ -e "$1.cancel" ] || : >"$1.late"
	gt_kill "$1" "$3"
} 2>/dev/null

# gt_start ID DIR SECONDS TENTHS STDIN SCRATCH MARK NENV ENV... COMMAND ARG...
# starts a task, or reports its state where it was started before.
gt_start() {
	(gt_task "$@") </dev/null &
}

# gt_claim ID makes a task this shell's own, with its .start as stdin and stderr.
gt_claim() {
	set -C
	if command exec 2>"$1.start" <&2; then
		set +C
		gt_self
		echo "$gt_me" >&2 && return
		exec 2>/dev/null </dev/null
		gt_ring "D $1 0 - nodisk 0 1 0 0 "
		return 1
	fi
	set +C
	# Who made it, a cancel or an earlier start, may be about to write to it.
	gt_n=400
	while [ -e "$1.start" ] && [ ! -s "$1.start" ] && [ "$gt_n" -gt 0 ]; do
		gt_sleep 0.05
		gt_n=$((gt_n - 1))
	done
	if [ -s "$1.start" ]; then gt_state "$1"; else gt_ring "D $1 0 - nodisk 0 1 0 0 "; fi
	return 1
}

# gt_pipes ID makes two pipes: 3 reads what is written to 7, and 8 what is
# written to 9. A short here-document is a pipe in most shells, and /proc gives
# its other end. Elsewhere they are FIFOs.
gt_pipes() {
	if [ "$gt_here" = 1 ]; then
		exec 3<<-'E' 8<<-'E'
			.
		E
			.
		E
		exec 7>/dev/fd/3 9>/dev/fd/8
		# The documents come out first.
		read -r gt_l <&3
		read -r gt_l <&8
	else
		rm -f "$1.fo" "$1.fe"
		mkfifo -m 600 "$1.fo" "$1.fe" || return
		exec 5<>"$1.fo" 6<>"$1.fe"
		exec 3<"$1.fo" 7>"$1.fo" 8<"$1.fe" 9>"$1.fe" 5>&- 6>&-
		rm -f "$1.fo" "$1.fe"
	fi
}

# gt_copy starts a copier for each stream.
gt_copy() {
	(gt_copier 3 "$gt_id.out") </dev/null >/dev/null 2>&1 &
	gt_co=$!
	(gt_copier 8 "$gt_id.err") </dev/null >/dev/null 2>&1 &
	gt_ce=$!
}

# gt_copier FD FILE puts what comes from a pipe into a file. It reads to the end
# whatever happens: neither a full disk nor the end of the task, which may leave
# others with the pipe, are to block or kill who writes to it.
gt_copier() {
	exec 4>&- 7>&- 9>&-
	if [ "$1" = 3 ]; then exec 8<&-; else exec 3<&8 8<&-; fi
	trap 'kill -s KILL "$!"; exec cat <&3 >/dev/null' TERM
	gt_r=1
	if command exec >>"$2"; then
		cat <&3 &
		wait "$!" && gt_r=0
	fi
	[ "$gt_r" = 0 ] || cat <&3 >/dev/null
	exit "$gt_r"
}

# gt_settle PID waits for a copier. What the command's group has written is in the
# pipe when it is over, and passes, however busy the node is. Who else holds the
# pipe, a daemon that was left, is waited for only while there is something to copy.
gt_settle() {
	gt_n=0 gt_s=0
	while if [ "$gt_fds" = 1 ]; then [ -e "/proc/$1/fd/3" ]; else kill -0 "$1"; fi; do
		gt_n=$((gt_n + 1)) gt_s=$((gt_s + 1))
		[ "$gt_n" -lt 10 ] || gt_idle "$1" || gt_s=0
		if [ "$gt_s" -ge 50 ] || [ "$gt_n" -ge 3000 ]; then
			kill -s TERM "$1"
			return
		fi
		gt_sleep 0.02
	done 2>/dev/null
	wait "$1" || gt_full=1
}

# gt_idle PID is true while the process that a copier has started sleeps, which it
# does for want of input. Where nothing tells, time must.
gt_idle() {
	if [ -e "/proc/$1/task/$1/children" ]; then
		gt_l=
		read -r gt_l <"/proc/$1/task/$1/children"
		gt_l=${gt_l%% *}
		[ -n "$gt_l" ] && read -r gt_l <"/proc/$gt_l/stat" || return 1
		case ${gt_l##*) } in S*) ;; *) return 1 ;; esac
	else
		[ "$gt_n" -ge 500 ]
	fi
}

gt_task() {
	gt_id=$1 gt_dir=$2 gt_limit=$3 gt_grace=$4 gt_in=$5 gt_scratch=$6 gt_nenv=$8
	shift 8
	gt_full= gt_tm=
	gt_oom
	gt_oom0=$gt_oomk
	gt_claim "$gt_id" || return 0
	[ -d "$gt_dir" ] && [ -x "$gt_dir" ] || { gt_finish "$gt_id" 0 - nodir 0; return; }
	[ -r "$gt_in" ] || { gt_finish "$gt_id" 0 - nostdin 0; return; }
	if [ "$gt_scratch" != - ]; then
		gt_scratch=$gt_root/s/$gt_scratch
		[ -d "$gt_scratch" ] || mkdir -p "$gt_scratch" 2>/dev/null || { gt_finish "$gt_id" 0 - noscratch 0; return; }
	fi
	gt_now
	gt_t0=$gt_t
	if [ "$gt_limit" != 0 ]; then
		gt_timer "$gt_id" "$gt_limit" "$gt_grace" &
		gt_tm=$!
	fi
	gt_pipes "$gt_id" || { gt_finish "$gt_id" 0 - nodisk 0; return; }
	gt_copy
	[ "$gt_mode" != m ] || set -m
	{
		gt_self
		echo "$gt_me" >&2
		# Who cancels from here on finds the pid. Who came before left this.
		[ ! -e "$gt_id.cancel" ] || exit 143
		gt_ring "G $gt_id"
		exec <"$gt_in"
		if [ "$gt_lc" = set ]; then LC_ALL=$gt_lcall; else unset LC_ALL; fi
		cd "$gt_dir" || exit 126
		export GPUTRAIN_TASK="$gt_id"
		[ "$gt_scratch" = - ] || export GPUTRAIN_SCRATCH="$gt_scratch"
		gt_env
		while [ "$gt_nenv" -gt 0 ]; do
			export "$1"
			shift
			gt_nenv=$((gt_nenv - 1))
		done
		exec >&7 2>&9 3<&- 4>&- 7>&- 8<&- 9>&-
		case $gt_mode in
		m) case $1 in -*) exec -- "$@" ;; *) exec "$@" ;; esac ;;
		setsid) exec $gt_reset "$gt_setsid" "$@" ;;
		python3) exec "$gt_setsid" -c "$gt_python" "$@" ;;
		perl) exec "$gt_setsid" -e "$gt_perl" "$@" ;;
		esac
	} &
	# No builtin may come before wait here, but in bash: dash reaps its children
	# after each, and then says nothing of the signal that ended them.
	case $gt_mode in m) set +m ;; esac
	wait "$!"
	gt_code=$? gt_pid=$!
	exec 3<&- 7>&- 8<&- 9>&-
	gt_ms=-
	gt_now
	[ -z "$gt_t0" ] || gt_ms=$(((gt_t - gt_t0) * 10))
	gt_sig=-
	if [ "$gt_code" -gt 128 ]; then
		gt_m=
		{ read -r gt_l && read -r gt_l && read -r gt_m; } <"$gt_id.start"
		# Only the shell's own word tells a signal from an exit with its number.
		# Bash says nothing of INT, PIPE and TERM: these are always signals.
		case $gt_code in 130 | 141 | 143) gt_m=x ;; esac
		[ -z "$gt_m" ] || gt_sig=$(kill -l "$gt_code") || gt_sig=-
	fi
	if [ -n "$gt_tm" ]; then
		kill -s TERM "$gt_tm"
		wait "$gt_tm"
	fi 2>/dev/null
	# What the command left in its group ends with it.
	if kill -0 "-$gt_pid" 2>/dev/null; then gt_end "$gt_pid" 10; fi
	gt_settle "$gt_co"
	gt_settle "$gt_ce"
	gt_cause=exit
	[ "$gt_sig" = - ] || gt_cause=signal
	if [ "$gt_code" = 137 ]; then
		gt_oom
		[ "$gt_oomk" = "$gt_oom0" ] || gt_cause=oom
	fi
	[ ! -e "$gt_id.cancel" ] || gt_cause=cancelled
	[ ! -e "$gt_id.late" ] || gt_cause=timedout
	gt_finish "$gt_id" "$gt_code" "$gt_sig" "$gt_cause" "$gt_ms"
}

# gt_cancel ID TENTHS ends a task, or sees to it that it never starts.
gt_cancel() {
	(
		set -C
		if { echo 0 >"$1.start"; } 2>/dev/null; then
			gt_finish "$1" 0 - never 0
			exit
		fi
		[ ! -e "$1.status" ] || exit
		: >"$1.cancel"
		gt_kill "$1" "$2"
	) </dev/null >/dev/null 2>&1 &
}

# gt_state ID has the reporter tell how a task is: D done, G going, U unknown.
gt_state() {
	if [ -s "$1.status" ]; then
		gt_e=
		{ read -r gt_l && read -r gt_a gt_b gt_c gt_d gt_e; } <"$1.status"
		if [ "$gt_e" = ";" ]; then
			gt_ring "D $1 $gt_a $gt_b $gt_c $gt_d 0 $gt_l "
			return
		fi
	fi
	if [ -e "$1.start" ]; then gt_ring "G $1"; else gt_ring "U $1"; fi
}

# gt_reap ID ends what is left of a task whose wrapper was killed.
gt_reap() {
	(
		gt_p=
		{ read -r gt_l && read -r gt_p; } <"$1.start"
		[ -n "$gt_p" ] || exit
		if [ -r "/proc/$gt_p/environ" ]; then
			tr '\0' '\n' <"/proc/$gt_p/environ" | grep -qx "GPUTRAIN_TASK=$1" || exit
		fi
		kill -KILL "-$gt_p"
	) </dev/null >/dev/null 2>&1 &
}

# gt_forget ID... removes what is left of finished tasks.
gt_forget() {
	for gt_i; do
		shift
		set -- "$@" "$gt_i.start" "$gt_i.out" "$gt_i.err" "$gt_i.in" "$gt_i.sh" "$gt_i.late" "$gt_i.cancel" "$gt_i.status"
	done
	rm -f -- "$@" </dev/null >/dev/null 2>&1 &
	jobs >/dev/null 2>&1 # reaps: dash keeps its dead children until asked for them
}

# gt_drop ID... removes the output of finished tasks that must not start again.
gt_drop() {
	for gt_i; do
		shift
		set -- "$@" "$gt_i.out" "$gt_i.err" "$gt_i.in" "$gt_i.sh"
	done
	rm -f -- "$@" </dev/null >/dev/null 2>&1 &
}

# gt_dirs DIR... makes scratch directories ahead.
gt_dirs() {
	for gt_i; do
		shift
		set -- "$@" "../s/$gt_i"
	done
	mkdir -p -- "$@" </dev/null >/dev/null 2>&1
}

# gt_release DIR... removes scratch directories.
gt_release() {
	(
		cd ../s || exit
		rm -rf -- "$@" || { chmod -R u+rwx -- "$@"; rm -rf -- "$@"; }
	) </dev/null >/dev/null 2>&1 &
}

# gt_swept TOKEN says that what was asked before it is under way.
gt_swept() { gt_say "K $1"; }

# gt_ask and gt_seek have the reporter do gt_poll and gt_look.
gt_ask() { gt_say "R $*"; }

gt_seek() { gt_say "L $*"; }

# gt_reporter is the only writer to the session's stdout.
gt_reporter() {
	while read -r gt_n gt_l; do
		case $gt_l in
		D*)
			set -- $gt_l
			[ "$8" = 0 ] || gt_hex "$2" o "$2.out" 0 4096 || exit 1
			[ "$9" = 0 ] || gt_hex "$2" e "$2.err" 0 4096 || exit 1
			echo "$gt_l"
			;;
		[BGKU]*) echo "$gt_l" ;;
		R*) gt_poll ${gt_l#R} ;;
		L*) gt_look ${gt_l#L} ;;
		Q) exit 0 ;;
		esac || exit 1
	done <&4
}

# gt_hex ID STREAM FILE OFFSET N sends what is there of N bytes: the file may be
# gone by now, when the client has had it all.
gt_hex() {
	echo "X $1 $2 $4" || return
	od -An -v -tx1 -j "$4" -N "$5" <"$3"
	echo .
}

# gt_poll TOKEN BUDGET (ID OUT ERR FINAL)... sends what each stream has beyond
# the offset OUT or ERR, up to BUDGET; with FINAL 1, also how long it is.
gt_poll() {
	gt_tok=$1 gt_max=$2 gt_names= gt_offs=' '
	shift 2
	while [ $# -ge 4 ]; do
		for gt_f in "o.out.$2" "e.err.$3"; do
			gt_s=${gt_f%%.*} gt_o=${gt_f##*.} gt_f=${gt_f#*.}
			gt_f=$1.${gt_f%.*}
			if [ -s "$gt_f" ]; then
				gt_names="$gt_names $gt_f"
				gt_offs="$gt_offs$gt_f:$1:$gt_s:$gt_o:$4 "
			elif [ "$4" = 1 ]; then
				echo "Z $1 $gt_s 0" || return
			fi
		done
		shift 4
	done
	if [ -n "$gt_names" ]; then
		wc -c $gt_names 2>/dev/null | while read -r gt_n gt_f; do
			gt_o=${gt_offs#* "$gt_f":}
			[ "$gt_o" != "$gt_offs" ] || continue
			gt_o=${gt_o%% *}
			gt_i=${gt_o%%:*} gt_o=${gt_o#*:}
			gt_s=${gt_o%%:*} gt_o=${gt_o#*:}
			[ "${gt_o#*:}" = 0 ] || echo "Z $gt_i $gt_s $gt_n" || exit 1
			gt_emit "$gt_i" "$gt_s" "$gt_f" "${gt_o%:*}" "$gt_n" || exit 1
		done || return
	fi
	echo "P $gt_tok"
}

# gt_emit ID STREAM FILE OFFSET SIZE
gt_emit() {
	gt_off=$4
	if [ "$(($5 / 65536))" -gt "$((gt_off / 65536))" ]; then
		gt_blocks "$@" 65536 || return
		[ "$gt_more" = 0 ] || return 0
	fi
	if [ "$(($5 / 4096))" -gt "$((gt_off / 4096))" ]; then gt_blocks "$@" 4096 || return; fi
	[ "$5" -le "$gt_off" ] || gt_hex "$1" "$2" "$3" "$gt_off" "$(($5 - gt_off))"
}

# gt_blocks ID STREAM FILE OFFSET SIZE BLOCK sends whole blocks. The client
# drops the part of the first one that it has. The frame says how many bytes
# come, so if the file has lost some in between, zeros take their place.
gt_blocks() {
	gt_b=$((gt_off / $6)) gt_n=$(($5 / $6 - gt_off / $6)) gt_more=0
	[ "$((gt_n * $6))" -le "$gt_max" ] || { gt_n=$((gt_max / $6)); gt_more=1; }
	echo "O $1 $2 $((gt_b * $6)) $((gt_n * $6))" || return
	{ gt_r=$(dd bs="$6" skip="$gt_b" count="$gt_n" conv=sync <"$3" 2>&1 >&5); } 5>&1
	gt_r=${gt_r%% *}
	case $gt_r in [0-9]*+[0-9]*) ;; *) gt_r=0+0 ;; esac
	gt_k=$((${gt_r%+*} + ${gt_r#*+}))
	[ "$gt_k" -ge "$gt_n" ] || dd bs="$6" count="$((gt_n - gt_k))" </dev/zero 2>/dev/null
	gt_off=$(((gt_b + gt_n) * $6))
}

# gt_look ID... reports the tasks whose wrapper is dead and left no status (V),
# does not seem to be at the task (M), or that were never started (W).
gt_look() {
	for gt_i; do
		gt_p=
		{ read -r gt_p <"$gt_i.start"; } 2>/dev/null
		if [ ! -e "$gt_i.start" ]; then
			echo "W $gt_i" || return
		elif ! gt_waits "$gt_p" "$gt_i" && [ ! -s "$gt_i.status" ]; then
			# It may be between two things, on a node that is too busy to let it go on.
			if [ -n "$gt_p" ] && ! gt_stat "$gt_p"; then echo "V $gt_i"; else echo "M $gt_i"; fi || return
		fi
	done
	echo "A"
}

# gt_strays NODE kills every process that carries the node's mark, but for the
# shell that asks: one machine may carry several nodes. Only Linux shows them.
gt_strays() {
	gt_n=0
	gt_self
	while [ "$gt_n" -lt 20 ]; do
		gt_hit=0
		for gt_f in $(grep -lsF "GPUTRAIN_NODE=$1" /proc/[0-9]*/environ); do
			gt_p=${gt_f#/proc/}
			gt_p=${gt_p%/environ}
			[ "$gt_p" != "$gt_me" ] || continue
			tr '\0' '\n' <"$gt_f" | grep -qxF "GPUTRAIN_NODE=$1" || continue
			gt_stat "$gt_p" || continue
			kill -s KILL "$gt_p" && gt_hit=1
		done
		[ "$gt_hit" = 1 ] || return 0
		gt_n=$((gt_n + 1))
		gt_sleep 0.05
	done
} 2>/dev/null </dev/null

# gt_endall NODE ends all tasks of the node whose t/ is the current directory.
gt_endall() {
	if [ -e runner ]; then
		gt_p= gt_q=
		read -r gt_p gt_q gt_l <runner
		gt_n=80
		! gt_alive "$gt_p" "$gt_q" || kill -s TERM "$gt_p"
		while [ "$gt_n" -gt 0 ] && gt_alive "$gt_p" "$gt_q"; do
			gt_sleep 0.05
			gt_n=$((gt_n - 1))
		done
		! gt_alive "$gt_p" "$gt_q" || kill -s KILL "$gt_p"
	fi
	for gt_f in *.start; do
		[ ! -e "${gt_f%.start}.status" ] || continue
		gt_p= gt_w=
		{ read -r gt_w && read -r gt_p; } <"$gt_f"
		gt_waits "$gt_w" "${gt_f%.start}" || continue
		: >"${gt_f%.start}.cancel"
		[ -z "$gt_p" ] || gt_end "$gt_p" 20 &
	done
	wait
	gt_strays "$1"
} 2>/dev/null </dev/null

# gt_close ROOT NODE REMOVE ends everything of the node, and with REMOVE 1 leaves
# nothing of it on the node. Without a ROOT it looks wherever that may be.
gt_close() {
	gt_see
	if [ -z "$1" ]; then
		gt_close "${HOME:-/nonexistent}/.gputrain/pools/$2" "$2" "$3" >/dev/null &&
			gt_close "${TMPDIR:-/tmp}/gputrain-$(id -u)/pools/$2" "$2" "$3"
		return
	fi
	if cd "$1/t" 2>/dev/null; then
		: >../disarmed
		# The reporter and the watcher first: nobody starts anything from now on.
		for gt_f in ctl watch; do
			gt_p= gt_q= gt_r= gt_w=
			{ read -r gt_p gt_q gt_r gt_w gt_l <"$gt_f"; } 2>/dev/null
			if gt_alive "$gt_p" "$gt_q"; then kill -KILL "-$gt_p" || kill -s KILL "$gt_p"; fi 2>/dev/null
			if gt_alive "$gt_r" "$gt_w"; then kill -s KILL "$gt_r"; fi
		done
		gt_endall "$2"
		cd /
	else
		gt_strays "$2"
	fi
	[ "$3" = 0 ] || gt_remove "$1"
	[ "$3" = 0 ] || [ ! -e "$1" ] || { echo "cannot remove $1" >&2; return 1; }
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

# gt_pipetest prints "ab" where a here-document is a pipe that can be written to.
gt_pipetest() {
	exec 3<<-'E'
		a
	E
	[ -p /dev/fd/3 ] || return
	exec 7>/dev/fd/3
	read -r gt_a <&3
	echo b >&7
	read -r gt_b <&3
	echo "$gt_a$gt_b"
}

# gt_see finds whether /proc tells what a process has open. Its stdin is /dev/null.
gt_see() {
	gt_fds=0 gt_frac=
	if [ "/proc/$$/fd/0" -ef /dev/null ]; then gt_fds=1; fi 2>/dev/null
}

# gt_tools finds how to put a command into a process group of its own, and
# whether /proc gives both ends of a pipe.
gt_tools() {
	gt_here=0
	if [ "$(gt_pipetest)" = "ab" ]; then gt_here=1; fi 2>/dev/null
	gt_python='import os,signal,sys
for s in (signal.SIGINT,signal.SIGQUIT,signal.SIGPIPE): signal.signal(s,signal.SIG_DFL)
os.setsid()
try: os.execvp(sys.argv[1],sys.argv[1:])
except OSError as e:
  sys.stderr.write("%s: %s\n"%(sys.argv[1],e.strerror)); sys.exit(127 if e.errno==2 else 126)'
	gt_perl='use POSIX; $SIG{INT}=$SIG{QUIT}="DEFAULT"; POSIX::setsid(); exec {$ARGV[0]} @ARGV;
print STDERR "$ARGV[0]: $!\n"; exit($!{ENOENT}?127:126);'
	# Where a shell does job control without a terminal (bash), that is one
	# process less for each task, and the command does not come to ignore INT
	# and QUIT, as POSIX has it for what runs in the background.
	# What counts is whether a subshell really makes a group: dash only says so.
	# Bash is known to do both.
	if [ -n "${BASH_VERSION-}" ]; then
		gt_mode=m
		return
	fi
	gt_mode=$(
		set -m
		sleep 5 >/dev/null &
		kill -0 "-$!" && echo m
		kill -s KILL "$!"
	) 2>/dev/null
	[ "$gt_mode" != m ] || return 0
	gt_reset=
	if env --default-signal=INT,QUIT true 2>/dev/null; then gt_reset="$(command -v env) --default-signal=INT,QUIT"; fi
	for gt_mode in setsid python3 perl; do
		if gt_setsid=$(command -v "$gt_mode"); then return; fi
	done
	gt_mode=none
} </dev/null

# What gt_pipes leaves in a pipe.

# gt_env is replaced by the client: what every task's environment has.
gt_env() { :; }

# gt_private DIR... makes folders, the first of which is ours alone.
gt_private() {
	(umask 077 && exec mkdir -p "$@") 2>/dev/null && [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && [ -w "$1" ]
}

# gt_place ROOT NODE sets gt_root, and gt_base above it, and makes it.
gt_place() {
	gt_root=$1
	case $gt_root in '' | /*) ;; *) gt_root=$HOME/$gt_root ;; esac
	if [ -n "$gt_root" ]; then
		gt_base=$gt_root
		gt_private "$gt_root" "$gt_root/t" "$gt_root/s" "$gt_root/work"
		return
	fi
	gt_base=${HOME:-/nonexistent}/.gputrain
	if [ -d "${HOME-}" ] && gt_private "$gt_base/pools/$2" "$gt_base/pools/$2/t" "$gt_base/pools/$2/s" "$gt_base/pools/$2/work"; then
		gt_root=$gt_base/pools/$2
		return
	fi
	rmdir "$gt_base/pools" "$gt_base" 2>/dev/null
	gt_base=${TMPDIR:-/tmp}/gputrain-$(id -u)
	gt_root=$gt_base/pools/$2
	gt_private "$gt_base" && gt_private "$gt_root" "$gt_root/t" "$gt_root/s" "$gt_root/work"
}

# gt_boot sets gt_bt to what tells one life of the machine, or of the container,
# from the next.
gt_boot() {
	gt_bt=-
	if [ -r /proc/sys/kernel/random/boot_id ]; then read -r gt_bt </proc/sys/kernel/random/boot_id; fi
	gt_stat 1
	gt_bt="$gt_bt $gt_st"
} 2>/dev/null

# gt_perl is true where runner.pl may run: perl must not have been told to do
# anything but what a program says.
gt_perl() {
	[ -r /proc/uptime ] && command -v perl && [ -z "${PERL5OPT-}${PERL5DB-}${PERL_UNICODE-}${PERLIO-}" ]
} >/dev/null

# gt_run starts the runner, where it does not run.
gt_run() {
	gt_p= gt_q=
	[ ! -e runner ] || read -r gt_p gt_q gt_l <runner
	gt_alive "$gt_p" "$gt_q" || PERL_BADLANG=0 perl ../runner.pl run "$gt_root" >/dev/null 2>&1
}

# gt_depose ends the session that had the node before.
gt_depose() {
	gt_p= gt_q= gt_r= gt_w=
	[ ! -e ctl ] || read -r gt_p gt_q gt_r gt_w gt_l <ctl
	if gt_alive "$gt_p" "$gt_q"; then kill -s KILL "$gt_p"; fi
	if gt_alive "$gt_r" "$gt_w"; then kill -s KILL "$gt_r"; fi
}

# gt_open ROOT NODE FIRST INTERVAL LEASE TTL SELFDESTRUCT DISK RUNNER makes the
# node's place on the first call and takes it over on every later one. RUNNER is
# the text of runner.pl, or empty where it is not wanted.
gt_open() {
	gt_name=$2 gt_root=$1 gt_mode= gt_pl=0
	gt_see
	if { [ "$3" = 0 ] && [ -e "$1/runner.pl" ]; } || { [ "$3" = 1 ] && [ -n "$9" ] && gt_perl; }; then
		gt_pl=1
	else
		gt_tools
	fi
	if [ "$3" = 1 ]; then
		gt_place "$1" "$2" || { echo "E root"; return 1; }
	fi
	cd "$gt_root/t" 2>/dev/null || { echo "E gone"; return 1; }
	[ ! -e ../disarmed ] || { echo "E gone"; return 1; }
	gt_boot
	gt_l=
	[ ! -s boot ] || read -r gt_l <boot
	[ -z "$gt_l" ] || [ "$gt_l" = "$gt_bt" ] || { echo "E restarted"; return 1; }
	[ -n "$gt_l" ] || echo "$gt_bt" >boot
	[ -e lease ] || echo 10000000 >lease
	[ -e gen ] || echo 10000000 >gen
	gt_arm "$4" "$5" "$6" "$7" || { echo "E full"; return 1; }
	gt_depose
	[ "$3" = 0 ] || gt_facts "$8"
	if [ "$gt_pl" = 1 ]; then
		[ "$3" = 0 ] || printf %s "$9" >../runner.pl || { echo "E full"; return 1; }
		gt_run && return
		[ "$3" = 1 ] || { echo "E full"; return 1; }
		# A perl that cannot do what is asked of it.
		rm -f ../runner.pl
		gt_pl=0
		gt_tools
	fi
	[ "$gt_mode" != none ] || { echo "E setsid"; return 1; }
	command -v od >/dev/null || { echo "E od"; return 1; }
	read -r gt_g <gen
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

# gt_ready becomes the runner's session, or starts the reporter: from here on it
# alone has the session's stdout, and nobody its stderr, so that the client sees
# its death as the end of output.
gt_ready() {
	if [ "$gt_pl" = 1 ]; then
		gt_stat "$$"
		echo "$$ $gt_st 0 0 ;" 1<>ctl
		export PERL_BADLANG=0
		exec perl ../runner.pl talk 2>/dev/null
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

# gt_beat N renews the lease, in place, so that a full disk does not matter.
# The answer shows the client that the session is alive.
gt_beat() {
	echo "$1" 1<>lease
	gt_say B
}

# gt_arm INTERVAL LEASE TTL SELFDESTRUCT starts the watcher, unless it runs. The
# watcher counts its own sleeps, so that no change of the clock can matter.
gt_arm() {
	gt_p= gt_q=
	[ ! -e watch ] || read -r gt_p gt_q gt_l <watch
	if gt_alive "$gt_p" "$gt_q"; then return 0; fi
	if [ "$gt_mode" = m ]; then set -m; fi
	(gt_watch "$@") </dev/null >/dev/null 2>&1 &
	gt_p=$!
	set +m
	gt_stat "$gt_p"
	echo "$gt_p $gt_st ;" >watch
}

gt_watch() {
	set +m
	trap '' HUP INT QUIT PIPE
	gt_age=0 gt_up=0 gt_last=
	gt_self
	gt_watcher=$gt_me
	while [ "$gt_age" -lt "$2" ] && { [ "$3" = 0 ] || [ "$gt_up" -lt "$3" ]; }; do
		sleep "$1"
		[ -e "$gt_root/t" ] && [ ! -e "$gt_root/disarmed" ] || exit 0
		gt_l=
		read -r gt_l <lease
		if [ "$gt_l" = "$gt_last" ]; then gt_age=$((gt_age + $1)); else gt_last=$gt_l gt_age=0; fi
		gt_up=$((gt_up + $1))
	done
	: >../disarmed
	gt_lapse
	if [ -n "$4" ]; then eval "$4"; fi
	if [ -z "$4" ] || [ -n "${GPUTRAIN_REMOVE-}" ]; then
		cd /
		gt_remove "$gt_root"
	fi
}

# gt_lapse ends everything of the node but the watcher.
gt_lapse() {
	gt_depose
	gt_endall "$gt_name"
}

# gt_facts DISK tells what the node is, in one write. With DISK 1 it tells the
# free space too, which takes a process.
gt_facts() {
	gt_disk=$1
	set -- "$(uname -s)" "$(uname -m)"
	gt_all="F os $1
F arch $2
F uid ${EUID:-$(id -u)}
F home ${HOME-}
F root $gt_root
F cache $gt_base/cache
F path $PATH
"
	gt_cpus
	gt_all="${gt_all}F cpus $gt_v
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
	[ ! -e /dev/kfd ] || gt_all="${gt_all}F tool kfd
"
	printf %s "$gt_all"
} 2>/dev/null

# gt_cpus sets gt_v to how many processors this shell may use.
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
