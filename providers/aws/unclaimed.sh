# Ends a node that nobody takes over. Whoever does marks what he runs there, and keeps a
# lease from then on.
n=0
until grep -qsF "GPUTRAIN_NODE=$node" /proc/[0-9]*/environ; do
	[ "$n" -lt "$wait" ] || exec shutdown -h now
	sleep 1
	n=$((n + 1))
done
