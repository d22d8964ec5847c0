# restore.sh ROOT CACHE WORK KEY: on a machine that was started from a baked image, moves the working directory and the
# stamps of Setup commands to where this pool has them. The working directory must be empty still.
#
# A Setup command may have written down where the working directory was, as "pip install -e ." does: a link leads from
# there to where it is now.

root=$1 cache=$2 work=$3 kept=$2/baked/$4

if [ ! -d "$kept/work" ] || [ -n "$(ls -A "$work")" ]; then
	echo "the image has nothing kept for this pool"
	exit 0
fi
IFS= read -r was <"$kept/was"
rmdir "$work"
mv "$kept/work" "$work"
chmod 700 "$work"
[ ! -e "$kept/work.sync" ] || mv "$kept/work.sync" "$work.sync"
case $was in "$work") ;; "${cache%/*}"/pools/*/work)
	(umask 077 && mkdir -p "${was%/*}")
	ln -s "$work" "$was"
esac
# Last: a Setup command counts as done if its stamp is there.
[ ! -d "$kept/phases" ] || mv "$kept/phases" "$root/phases"
rm -rf "$kept"
rmdir "$cache/baked" 2>/dev/null || :
echo cached >&3
