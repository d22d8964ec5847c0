command -v mpirun >/dev/null || {
	echo "gputrain: this node has no mpirun: install Open MPI (openmpi-bin), or put it in PATH" >&2
	exit 69
}
mpirun --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE' || {
	echo "gputrain: $(command -v mpirun) is not Open MPI's, the only MPI that works without SSH between nodes: install it, or put it first in PATH" >&2
	exit 69
}
case $GPUTRAIN_SCRATCH in
*[[:space:]]*)
	echo "gputrain: Open MPI cannot run a program below $GPUTRAIN_SCRATCH, which has a space" >&2
	exit 69
	;;
esac
mkdir -p "$GPUTRAIN_SCRATCH/mpi" || exit
cat >"$GPUTRAIN_SCRATCH/mpi/agent" <<'END' || exit
# mpirun runs this to start a daemon on another node: sh agent HOST WORD... Like ssh it stays until the command has
# ended, and then exits as that did. The request appears by a rename, and the answer comes through a FIFO, which blocks.
cd "${0%/*}" || exit
mkfifo -m 600 "$$.answer" || exit
exec 3<>"$$.answer"
host=$1
shift
printf '%s\n%s' "$host" "$*" >"$$.new" && mv "$$.new" "$$.request" || exit
read -r code <&3
rm -f "$$.answer"
exit "$code"
END
: "${OMPI_MCA_plm_rsh_agent=sh $GPUTRAIN_SCRATCH/mpi/agent}" "${PRTE_MCA_plm_ssh_agent=$OMPI_MCA_plm_rsh_agent}"
export OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent
# mpirun has its processes on all nodes run in this folder's path, which differs.
export GPUTRAIN_MPI_DIR="$PWD"
exec mpirun -np "$gputrain_world" --hostfile "$GPUTRAIN_HOSTFILE" sh -c "$gputrain_ranks" sh "$@"
