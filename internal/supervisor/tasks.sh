# Commands on a node without perl; elsewhere runner.pl runs them. The client calls
# these functions one after the other: gt_start for a task. The code that runs for
# every task uses builtins only.
#
# Files of a task, in t/ of the pool's folder:
#   ID.start   "wrapper-pid scratch-directory", then "command-pid", then the output
#              of the wrapper's shell: its message about a signal, and nothing else,
#              since files newer than this one are the task's. Made with noclobber:
#              the process that makes it owns the task, so nothing runs twice.
#              "dropped" if only the file's existence still counts.
#   ID.hold    "wrapper-pid start-time ;" while the task holds the lease
#   ID.out ID.err   output that is long, or of a task that runs for a while
#   ID.in, ID.sh    stdin and a long script
#   ID.late ID.cancel ID.lapsed
#              why it was signalled: by its time limit, on request, or by the end of the lease.
#              Their existence counts, so they work on a full disk.
#   ID.status  "stdout stderr", then "code signal cause milliseconds ;": without
#              the ";" it is incomplete. For each stream 0 means empty, and 1 means
#              that it is in its file.
#
# A task's stdout and stderr are pipes, as under plain ssh: opening /dev/stdout
# anew must not cut anything off. Copiers write the output to files.
#
# The client reads frames from stdout. The reporter alone writes them. It reads its
# orders from the FIFO bell.GENERATION: whole lines shorter than PIPE_BUF, each
# after its length in four digits and a space. Every process opens the FIFO
# read-write, so that none ever blocks.

# gt_say LINE passes the reporter a line.
gt_say() {
	gt_len=000${#1}
	printf '%s %s\n' "${gt_len#"${gt_len%????}"}" "$1" >&4
}

# gt_ring LINE does so from the process that waits for a task: after a takeover, the bell is another one.
gt_ring() {
	if [ -e "bell.$gt_g" ]; then gt_say "$1"; else read -r gt_n <gen && gt_say "$1" 4<>"bell.$gt_n"; fi
}

# gt_finish ID CODE SIGNAL CAUSE MS writes the status and rings. The ring carries the status too, and arrives even if
# the disk is full.
gt_finish() {
	gt_text=0
	[ ! -s "$1.out" ] || gt_text=1
	if [ -s "$1.err" ]; then gt_text="$gt_text 1"; else gt_text="$gt_text 0"; fi
	printf '%s\n' "$gt_text" "$2 $3 $4 $5 ;" >"$1.status" || gt_full=1
	[ ! -e "$1.hold" ] || : >"$1.hold"
	gt_stepped "$1"
	gt_ring "D $1 $2 $3 $4 $5 $((${gt_full:-0} + gt_x)) $gt_text "
}

# gt_stepped ID sets gt_x to 2 for a task that has left a step file, and else to 0.
gt_stepped() {
	gt_k= gt_x=0
	{ read -r gt_l gt_k gt_v <"$1.start"; } 2>/dev/null
	for gt_f in "../s/${gt_k:--}.steps"/[0-9]*; do
		[ ! -e "$gt_f" ] || gt_x=2
		break
	done
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

# gt_timer ID SECONDS TENTHS ends a task that runs too long. TERM ends the timer, with its sleep.
gt_timer() {
	gt_o=$!
	gt_n=$2
	gt_fraction
	[ "$gt_frac" = 1 ] || gt_n=$((${2%.*} + 1))
	trap '[ "$!" = "$gt_o" ] || { kill -s KILL "$!"; wait "$!"; }; exit 0' TERM
	sleep "$gt_n" &
	wait "$!"
	gt_o=$!
	[ -e "$1.cancel" ] || [ -e "$1.lapsed" ] || : >"$1.late"
	gt_kill "$1" "$3"
} 2>/dev/null

# gt_start ID DIR SECONDS TENTHS STDIN SCRATCH MARK HOLD TTY NENV ENV... COMMAND ARG... starts a task, or reports its state
# if it was started before.
gt_start() {
	(gt_task "$@") </dev/null &
}

# gt_claim ID SCRATCH makes a task this shell's own, with its .start as stdin and stderr.
gt_claim() {
	set -C
	if command exec 2>"$1.start" <&2; then
		set +C
		gt_self
		echo "$gt_me $2" >&2 && return
		exec 2>/dev/null </dev/null
		gt_ring "D $1 0 - nodisk 0 1 0 0 "
		return 1
	fi
	set +C
	# Whoever made it, a cancel or an earlier start, may be about to write to it.
	gt_n=400
	while [ -e "$1.start" ] && [ ! -s "$1.start" ] && [ "$gt_n" -gt 0 ]; do
		gt_sleep 0.05
		gt_n=$((gt_n - 1))
	done
	if [ -s "$1.start" ]; then gt_state "$1"; else gt_ring "D $1 0 - nodisk 0 1 0 0 "; fi
	return 1
}

# gt_pipes ID makes two pipes: 3 reads what is written to 7, and 8 what is written to 9. A short here-document is a pipe
# in most shells, and /proc gives its other end. Otherwise they are FIFOs.
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

# gt_copier FD FILE copies a pipe to a file. It reads to the end whatever happens: neither a full disk nor the end of
# the task, which may leave other processes with the pipe, may block or kill the writers.
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

# gt_leftover PID ends what a command has left in its group. What holds its output may print for a moment, as under ssh,
# unless a signal has ended the command. A filter may first read what the others have written.
gt_leftover() {
	gt_n=0 gt_s=0 gt_k=TERM
	while kill -0 "-$1"; do
		if [ -e "$gt_id.cancel" ] || [ -e "$gt_id.late" ] || [ "$gt_n" -ge 500 ]; then
			gt_end "$1" 10
			return
		fi
		if [ "$gt_n" -lt "$gt_s" ] || [ "$gt_n" -lt 100 ] && [ "$gt_sig" = - ] && [ -z "$gt_tty" ] && gt_copies; then
			gt_sleep 0.02
			gt_n=$((gt_n + 1))
			continue
		fi
		gt_members "$1"
		[ -n "$gt_filters$gt_others" ] || return 0 # zombies, which no process reaps
		if [ -z "$gt_filters" ]; then
			gt_end "$1" 10
			return
		fi
		gt_s=$((gt_n + 1 + gt_n / 4))
		if [ -n "$gt_others" ]; then
			kill -s "$gt_k" $gt_others
			kill -s CONT $gt_others
			gt_k=KILL gt_s=$((gt_n + 50))
		fi
	done
} 2>/dev/null

# gt_copies is true while a copier of the task waits for output.
gt_copies() {
	if [ "$gt_fds" = 1 ]; then [ -e "/proc/$gt_co/fd/3" ] || [ -e "/proc/$gt_ce/fd/3" ]; else kill -0 "$gt_co" || kill -0 "$gt_ce"; fi
}

# gt_members PID sets gt_filters to the processes of a group whose stdin is a pipe, and gt_others to the others. Only Linux
# shows them: elsewhere all are one of the others.
gt_members() {
	gt_filters= gt_others=$1
	[ "$gt_fds" = 1 ] || return 0
	gt_others=
	for gt_f in /proc/[0-9]*/stat; do
		gt_l=
		read -r gt_l <"$gt_f" || continue
		set -- "$1" ${gt_l##*) }
		[ "$4" = "$1" ] || continue
		case $2 in Z | X) continue ;; esac
		gt_f=${gt_f%/stat}
		if [ -p "$gt_f/fd/0" ]; then gt_filters="$gt_filters ${gt_f#/proc/}"; else gt_others="$gt_others ${gt_f#/proc/}"; fi
	done
} 2>/dev/null

# gt_settle PID waits for a copier. The output of the command's group is in the pipe when the group is over, and is
# copied, however busy the node is. Other processes that hold the pipe, such as a daemon that was left, are waited for
# only while there is something to copy.
gt_settle() {
	gt_n=0 gt_s=0
	while if [ "$gt_fds" = 1 ]; then [ -e "/proc/$1/fd/3" ]; else kill -0 "$1"; fi; do
		gt_n=$((gt_n + 1)) gt_s=$((gt_s + 1))
		[ "$gt_n" -lt 10 ] || gt_idle "$1" || gt_s=0
		if [ "$gt_s" -ge 100 ] || [ "$gt_n" -ge 3000 ]; then
			kill -s TERM "$1"
			return
		fi
		gt_sleep 0.02
	done 2>/dev/null
	wait "$1" || gt_full=1
}

# gt_idle PID is true while the process that a copier has started sleeps, which it does when its input is empty. If the
# system does not show that, time must decide.
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
	gt_id=$1 gt_dir=$2 gt_limit=$3 gt_grace=$4 gt_in=$5 gt_scratch=$6 gt_hold=$8 gt_tty=$9
	shift 9
	gt_nenv=$1
	shift
	gt_full= gt_tm=
	gt_oom
	gt_oom0=$gt_oomk
	gt_claim "$gt_id" "$gt_scratch" || return 0
	# A client that has taken the node over meanwhile may have listed its tasks before.
	read -r gt_o gt_l <owner
	[ "$gt_o" = "$gt_gen" ] || { gt_finish "$gt_id" 0 - fenced 0; return; }
	[ -d "$gt_dir" ] && [ -x "$gt_dir" ] || { gt_finish "$gt_id" 0 - nodir 0; return; }
	[ -r "$gt_in" ] || { gt_finish "$gt_id" 0 - nostdin 0; return; }
	if [ -n "$gt_tty" ] && ! gt_py=$(command -v python3); then
		gt_finish "$gt_id" 0 - notty 0
		return
	fi
	if [ "$gt_scratch" != - ]; then
		gt_scratch=$gt_root/s/$gt_scratch
		[ -d "$gt_scratch.steps" ] || mkdir -p "$gt_scratch" "$gt_scratch.steps" 2>/dev/null || { gt_finish "$gt_id" 0 - noscratch 0; return; }
	fi
	if [ -n "$gt_hold" ]; then
		gt_stat "$gt_me"
		{ echo "$gt_me $gt_st ;" >"$gt_id.hold"; } 2>/dev/null || { gt_finish "$gt_id" 0 - nodisk 0; return; }
	fi
	gt_now
	gt_t0=$gt_t
	if [ "$gt_limit" != 0 ]; then
		gt_timer "$gt_id" "$gt_limit" "$gt_grace" &
		gt_tm=$!
	fi
	gt_pipes "$gt_id" || { gt_finish "$gt_id" 0 - nodisk 0; return; }
	gt_copy
	[ "$gt_mode" != m ] || [ -n "$gt_tty" ] || set -m
	{
		gt_self
		echo "$gt_me" >&2
		# A cancel or time limit from here on finds the pid. One that came before left its file.
		[ ! -e "$gt_id.cancel" ] && [ ! -e "$gt_id.late" ] && [ ! -e "$gt_id.lapsed" ] || exit 143
		gt_ring "G $gt_id"
		exec <"$gt_in"
		if [ "$gt_lc" = set ]; then LC_ALL=$gt_lcall; else unset LC_ALL; fi
		cd "$gt_dir" || exit 126
		export GPUTRAIN_TASK="$gt_id"
		[ "$gt_scratch" = - ] || export GPUTRAIN_SCRATCH="$gt_scratch" GPUTRAIN_STEPS="$gt_scratch.steps"
		gt_env
		while [ "$gt_nenv" -gt 0 ]; do
			export "$1"
			shift
			gt_nenv=$((gt_nenv - 1))
		done
		exec >&7 2>&9 3<&- 4>&- 7>&- 8<&- 9>&-
		[ -z "$gt_tty" ] || exec "$gt_py" -c "$gt_terminal" $gt_tty "$@"
		case $gt_mode in
		m) case $1 in -*) exec -- "$@" ;; *) exec "$@" ;; esac ;;
		setsid) exec $gt_reset "$gt_setsid" "$@" ;;
		python3) exec "$gt_setsid" -c "$gt_python" "$@" ;;
		perl) exec "$gt_setsid" -e "$gt_perl" "$@" ;;
		esac
	} &
	# Except in bash, no builtin may come before wait here: dash reaps its children after each, and then does not report
	# the signal that ended them.
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
		# Only the shell's message distinguishes a signal from an exit with its number. Bash prints none for INT, PIPE
		# and TERM: these always count as signals.
		case $gt_code in 130 | 141 | 143) gt_m=x ;; esac
		[ -z "$gt_m" ] || gt_sig=$(kill -l "$gt_code") || gt_sig=-
	fi
	if [ -n "$gt_tm" ]; then
		kill -s TERM "$gt_tm"
		wait "$gt_tm"
	fi 2>/dev/null
	gt_leftover "$gt_pid"
	gt_settle "$gt_co"
	gt_settle "$gt_ce"
	gt_cause=exit
	[ "$gt_sig" = - ] || gt_cause=signal
	if [ "$gt_code" = 137 ]; then
		gt_oom
		[ "$gt_oomk" = "$gt_oom0" ] || gt_cause=oom
	fi
	[ ! -e "$gt_id.lapsed" ] || gt_cause=lapsed
	[ ! -e "$gt_id.cancel" ] || gt_cause=cancelled
	[ ! -e "$gt_id.late" ] || gt_cause=timedout
	gt_finish "$gt_id" "$gt_code" "$gt_sig" "$gt_cause" "$gt_ms"
}

# gt_cancel ID TENTHS ends a task, or makes sure that it never starts.
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

# gt_state ID makes the reporter report a task's state: D done, G going, U unknown.
gt_state() {
	gt_e=
	if { read -r gt_e gt_l <"$1.start"; } 2>/dev/null && [ "$gt_e" = dropped ]; then
		gt_ring "U $1"
		return
	fi
	if [ -s "$1.status" ]; then
		gt_e=
		{ read -r gt_t && read -r gt_a gt_b gt_c gt_d gt_e; } <"$1.status"
		if [ "$gt_e" = ";" ]; then
			gt_stepped "$1"
			gt_ring "D $1 $gt_a $gt_b $gt_c $gt_d $gt_x $gt_t "
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
			gt_marked "$gt_p" "GPUTRAIN_TASK=$1" || exit
		fi
		kill -KILL "-$gt_p"
	) </dev/null >/dev/null 2>&1 &
}

# gt_forget ID... removes what is left of finished tasks.
gt_forget() {
	for gt_i; do
		shift
		set -- "$@" "$gt_i.start" "$gt_i.out" "$gt_i.err" "$gt_i.in" "$gt_i.sh" "$gt_i.late" "$gt_i.cancel" "$gt_i.lapsed" "$gt_i.status" "$gt_i.hold"
	done
	rm -f -- "$@" </dev/null >/dev/null 2>&1 &
	jobs >/dev/null 2>&1 # reaps: dash keeps its dead children until asked for them
}

# gt_drop ID... removes the output of finished tasks that must not start again.
gt_drop() {
	for gt_i; do
		shift
		set -- "$@" "$gt_i.out" "$gt_i.err" "$gt_i.in" "$gt_i.sh"
		echo "dropped" 1<>"$gt_i.start"
	done
	rm -f -- "$@" </dev/null >/dev/null 2>&1 &
}

# gt_dirs DIR... makes scratch directories ahead, and the folders of step files beside them.
gt_dirs() {
	for gt_i; do
		shift
		set -- "$@" "../s/$gt_i" "../s/$gt_i.steps"
	done
	mkdir -p -- "$@" </dev/null >/dev/null 2>&1
}

# gt_release DIR... removes scratch directories, and the folders of step files beside them.
gt_release() {
	(
		cd ../s || exit
		for gt_i; do
			shift
			set -- "$@" "$gt_i" "$gt_i.steps"
		done
		rm -rf -- "$@" || { chmod -R u+rwx -- "$@"; rm -rf -- "$@"; }
	) </dev/null >/dev/null 2>&1 &
}

# gt_swept TOKEN reports that the calls before it are under way.
gt_swept() { gt_say "K $1"; }

# gt_ask, gt_seek and gt_list make the reporter call gt_poll, gt_look and gt_found.
gt_ask() { gt_say "R $*"; }

gt_list() { gt_say T; }

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
		T) gt_found ;;
		Q) exit 0 ;;
		esac || exit 1
	done <&4
}

# gt_hex ID STREAM FILE OFFSET N sends up to N bytes: the file may be gone by now, if the client has had it all.
gt_hex() {
	echo "X $1 $2 $4" || return
	od -An -v -tx1 -j "$4" -N "$5" <"$3"
	echo .
}

# gt_poll TOKEN BUDGET (ID OUT ERR FINAL)... sends each stream from the offset OUT or ERR on, up to BUDGET bytes; with
# FINAL 1, also its length.
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

# gt_blocks ID STREAM FILE OFFSET SIZE BLOCK sends whole blocks. The client drops the part of the first one that it has.
# The frame announces the number of bytes, so if the file has lost some in between, zeros take their place.
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
		{ read -r gt_p gt_l <"$gt_i.start"; } 2>/dev/null
		if [ ! -e "$gt_i.start" ]; then
			echo "W $gt_i" || return
		elif ! gt_waits "$gt_p" "$gt_i" && [ ! -s "$gt_i.status" ]; then
			# It may be between two steps, on a node that is too busy to let it continue.
			if [ -n "$gt_p" ] && ! gt_stat "$gt_p"; then echo "V $gt_i"; else echo "M $gt_i"; fi || return
		fi
	done
	echo "A"
}

# gt_found reports every task that was not forgotten: I ID, 1 if it is over, and the name of its scratch directory, and
# J at the end.
gt_found() {
	for gt_f in *.start; do
		gt_i=${gt_f%.start} gt_p= gt_s= gt_k=0
		[ -e "$gt_f" ] || continue
		{ read -r gt_p gt_s gt_l <"$gt_f"; } 2>/dev/null
		[ "$gt_p" != dropped ] || continue
		if [ -s "$gt_i.status" ] || { [ -n "$gt_p" ] && ! gt_stat "$gt_p"; }; then gt_k=1; fi
		echo "I $gt_i $gt_k ${gt_s:--}" || return
	done
	echo "J"
}

# gt_pipetest prints "ab" if a here-document is a pipe that can be written to.
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

# gt_tools finds out how to put a command into a process group of its own, and whether /proc gives both ends of a pipe.
gt_tools() {
	gt_here=0
	if [ "$(gt_pipetest)" = "ab" ]; then gt_here=1; fi 2>/dev/null
	gt_python='import os,signal,sys
for s in (signal.SIGINT,signal.SIGQUIT,signal.SIGPIPE): signal.signal(s,signal.SIG_DFL)
os.setsid()
try: os.execvp(sys.argv[1],sys.argv[1:])
except OSError as e:
  sys.stderr.write("%s: %s\n"%(sys.argv[1],e.strerror)); sys.exit(127 if e.errno==2 else 126)'
	gt_terminal='import fcntl,os,select,signal,stat,struct,sys,termios
# The command has a terminal, and a session of its own. Another process, which is not the command'"'"'s child, types its
# stdin there, and copies what it writes there to stdout.
try:
  columns,lines=int(sys.argv[1]),int(sys.argv[2])
  m,s=os.openpty()
  a=termios.tcgetattr(s)
  a[1]&=~termios.ONLCR
  a[3]&=~termios.ECHO
  termios.tcsetattr(s,termios.TCSANOW,a)
  fcntl.ioctl(s,termios.TIOCSWINSZ,struct.pack("HHHH",lines,columns,0,0))
except OSError as e:
  sys.stderr.write("the node cannot make a terminal: %s\n"%e.strerror); sys.exit(126)
h=os.fork()
if h==0:
  if os.fork(): os._exit(0)
  os.setsid(); os.close(s); os.close(2); os.set_blocking(m,False)
  data,last,end,out=b"",b"\n",False,True
  while True:
    if not data and not end:
      data=os.read(0,65536); end=not data
      if end: data=b"\4" if last==b"\n" else b"\4\4"
      else: last=data[-1:]
    r,w,x=select.select([m],[m] if data else [],[])
    try:
      if w: data=data[os.write(m,data[:1024]):]
    except BlockingIOError: select.select([m],[],[],0.01)
    except OSError: data,end=b"",True
    if not r: continue
    try: b=os.read(m,65536)
    except BlockingIOError: continue
    except OSError: break
    if not b: break
    try:
      while out and b: b=b[os.write(1,b):]
    except OSError: out=False
  os._exit(0)
os.waitpid(h,0)
os.close(m); os.setsid()
t=os.open(os.ttyname(s),os.O_RDWR)
try: fcntl.ioctl(t,termios.TIOCSCTTY,0)
except OSError: pass
types=stat.S_ISREG(os.fstat(0).st_mode) # or else /dev/null
for f in ((0,1,2) if types else (1,2)): os.dup2(t,f)
for g in (signal.SIGINT,signal.SIGQUIT,signal.SIGPIPE): signal.signal(g,signal.SIG_DFL)
try: os.execvp(sys.argv[3],sys.argv[3:])
except OSError as e:
  sys.stderr.write("%s: %s\n"%(sys.argv[3],e.strerror)); sys.exit(127 if e.errno==2 else 126)'
	gt_perl='use POSIX; $SIG{INT}=$SIG{QUIT}="DEFAULT"; POSIX::setsid(); exec {$ARGV[0]} @ARGV;
print STDERR "$ARGV[0]: $!\n"; exit($!{ENOENT}?127:126);'
	# If a shell does job control without a terminal (bash), each task needs one process less, and the command does not
	# ignore INT and QUIT, as POSIX demands for background commands. What counts is whether a subshell really makes a
	# group: dash only claims to. Bash is known to do both.
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

# gt_env is replaced by the client: it exports every task's common environment.
gt_env() { :; }

# gt_beat N renews the lease, in place, so that a full disk does not matter. The answer shows the client that the
# session is alive.
gt_beat() {
	echo "$1" 1<>lease
	gt_say B
}
