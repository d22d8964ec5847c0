# A program that takes the node over marks its processes there, and so is the watcher of its lease. The
# node ends if no program takes it over in time, and if all of those have ended for as long: the lease is over, or
# the node was given up.
(
	gcp_n=0 gcp_step=1
	while [ "$gcp_n" -lt "$gcp_wait" ]; do
		sleep "$gcp_step"
		gcp_n=$((gcp_n + gcp_step))
		if grep -qsF "GPUTRAIN_NODE=$gcp_node" /proc/[0-9]*/environ; then
			gcp_n=0 gcp_step=10
		fi
	done
	gcp_end
) >/dev/null 2>&1 </dev/null &
