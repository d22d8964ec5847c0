# gt_address prints the address by which other nodes and the login node reach this one, or nothing.
gt_address() {
	for gt_a in $(hostname -i 2>/dev/null) $(hostname -I 2>/dev/null); do
		case $gt_a in
		127.* | 169.254.* | ::1 | fe80:*) ;;
		*)
			printf '%s\n' "$gt_a"
			return
			;;
		esac
	done
}
