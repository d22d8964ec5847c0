# Serves the requests of the agents in the folder $1. Each line of stdin is a question:
#   list            prints "ID BYTES" for each request, and "."
#   get ID          prints the request
#   answer ID CODE  has the agent exit with the code
while read -r ask id code; do
	case $ask in
	list)
		for f in "$1"/*.request; do
			[ ! -f "$f" ] || { id=${f##*/} && printf '%s %s\n' "${id%.request}" "$(wc -c <"$f")"; }
		done
		echo .
		;;
	get) cat "$1/$id.request" ;;
	answer)
		rm -f "$1/$id.request"
		# Opened for both, a FIFO does not block if the agent is gone.
		[ ! -p "$1/$id.answer" ] || echo "$code" 1<>"$1/$id.answer"
		;;
	esac
done
