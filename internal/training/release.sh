while [ ! -e "$GPUTRAIN_SCRATCH/.gputrain-release" ]; do
	[ -d "$GPUTRAIN_SCRATCH" ] || exit 1
	sleep 0.05 2>/dev/null || sleep 1
done
rm -f "$GPUTRAIN_SCRATCH/.gputrain-release"
