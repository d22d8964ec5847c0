# A program that takes the node over marks its processes there, and renews a lease from then on.
(
	gcp_n=0
	until grep -qsF "GPUTRAIN_NODE=$gcp_node" /proc/[0-9]*/environ; do
		[ "$gcp_n" -lt "$gcp_wait" ] || gcp_end
		sleep 1
		gcp_n=$((gcp_n + 1))
	done
) >/dev/null 2>&1 </dev/null &
