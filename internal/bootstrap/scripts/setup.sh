# setup.sh STAMP ATTEMPT MANIFEST AGAIN: runs the command in GPUTRAIN_SETUP, unless the stamp shows that it has run over
# the current files: those of MANIFEST, if there is one. AGAIN makes it run in any case. The command is not an argument:
# every user can read those.

stamp=$1 attempt=$2 manifest=$3 again=$4
now=none
if [ -n "$manifest" ]; then now=$(cksum <"$manifest"); fi
was=
if [ -z "$again" ] && [ -f "$stamp" ]; then IFS= read -r was <"$stamp" || :; fi
if [ "$was" = "$now" ]; then
	echo cached >&3
	exit 0
fi
command=$GPUTRAIN_SETUP
unset GPUTRAIN_SETUP

# Neither in a condition nor behind ||: there sh ignores -e.
( set --; eval "$command" ) 3>&-

mkdir -p "${stamp%/*}"
printf '%s\n' "$now" >"$stamp.$attempt"
mv -f "$stamp.$attempt" "$stamp"
