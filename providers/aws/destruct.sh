# A shutdown terminates the machine: see InstanceInitiatedShutdownBehavior.
until sudo -n shutdown -h now || shutdown -h now || sudo -n systemctl poweroff || systemctl poweroff; do
	sleep 5
done
