# Ends a node that no program takes over. A program that does marks its processes there, and
# renews a lease from then on.
n=0
until grep -qsF "GPUTRAIN_NODE=$node" /proc/[0-9]*/environ; do
	[ "$n" -lt "$wait" ] || exec shutdown -h now
	sleep 1
	n=$((n + 1))
done
