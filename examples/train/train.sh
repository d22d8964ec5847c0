# What a command owes gputrain: a line with its step, and a checkpoint that appears by a rename. Each process of the gang
# runs this. A real program would also meet the others, at MASTER_ADDR and MASTER_PORT. These do not, so when one fails the
# others go on while gputrain listens for five seconds to what they have to say about it.
step=0
if [ -n "$GPUTRAIN_RESUME" ]; then
	step=$(cat "$GPUTRAIN_RESUME/model")
fi
while [ "$step" -lt "$STEPS" ]; do
	step=$((step + 1))
	if [ "$step $GPUTRAIN_ATTEMPT $RANK" = "$FAIL 1 $((WORLD_SIZE - 1))" ]; then
		echo "a failure on purpose" >&2
		exit 1
	fi
	if [ "$RANK" = 0 ]; then
		echo "gputrain: step=$step/$STEPS loss=$((1000 / step))e-3"
		if [ $((step % 10)) = 0 ]; then
			mkdir -p "$GPUTRAIN_CHECKPOINTS/.step-$step"
			echo "$step" >"$GPUTRAIN_CHECKPOINTS/.step-$step/model"
			rm -rf "$GPUTRAIN_CHECKPOINTS/step-$step"
			mv "$GPUTRAIN_CHECKPOINTS/.step-$step" "$GPUTRAIN_CHECKPOINTS/step-$step"
		fi
	fi
	sleep "$PAUSE"
done
