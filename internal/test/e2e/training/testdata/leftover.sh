# In the first attempt, leaves a process behind in a session of its own, and another that only SIGKILL ends. In the second
# one none of them may be left.
if [ "$GPUTRAIN_ATTEMPT" = 1 ] && [ "$RANK" = 1 ]; then
	trap '' TERM
	setsid sh -c 'trap "" TERM HUP; echo $$ >stale; exec python3 testdata/peers.py' </dev/null >/dev/null 2>&1 &
	python3 testdata/peers.py
	while :; do sleep 1; done
fi
if [ "$RANK" = 1 ]; then
	read -r stale <stale
	if kill -0 "$stale" 2>/dev/null; then
		echo "process $stale of the older attempt lives"
		exit 41
	fi
fi
exec python3 testdata/peers.py
