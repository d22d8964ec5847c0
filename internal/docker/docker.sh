# docker.sh COMMAND ...: the machine's side of a node in a container. container.go runs it as a step, with what a step's
# script starts with; it must run under dash, bash and busybox ash.
#
# The exit status says what is wrong: container.go has the table.

# No program that it starts needs the login.
auth=${GPUTRAIN_DOCKER_AUTH-}
unset GPUTRAIN_DOCKER_AUTH

have() { command -v "$1" >/dev/null 2>&1; }

# as_root COMMAND... runs it as root, and fails if this login may not.
sudo=none
if [ "$(id -u)" = 0 ]; then sudo=
elif have sudo && sudo -n true 2>/dev/null; then sudo='sudo -n'
elif have doas && doas -n true 2>/dev/null; then sudo='doas -n'
fi
as_root() { [ "$sudo" != none ] && $sudo env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }

# d ARG... runs the engine's command: "$before $engine", of which before is empty or a way to be root.
before= engine=
d() { $before "$engine" "$@"; }

# answers is true if the daemon does, and sets platform.
answers() {
	said=$(d version --format '{{.Server.Os}}/{{.Server.Arch}}' 2>&1) || return 1
	platform=${said##*
}
}

# find_engine finds the engine, after having installed and started it, if it must and may.
find_engine() {
	have docker || install_docker
	engine=$(command -v docker)
	if answers; then return 0; fi
	case $said in
	*"ermission denied"*)
		if [ -z "$sudo" ] || [ "$sudo" = none ]; then
			printf '%s\n' "$said"
			exit 103
		fi
		before=$sudo
		if answers; then return 0; fi
		;;
	esac
	if [ -n "${DOCKER_HOST-}" ]; then
		printf '%s\n' "$said"
		exit 102 # a daemon of the user's choice
	fi
	echo "Docker's daemon does not answer: starting it"
	if have systemctl && [ -d /run/systemd/system ]; then as_root systemctl start docker || :
	elif have rc-service; then as_root rc-service docker start || :
	elif have service; then as_root service docker start || :
	fi
	tries=30
	while [ "$tries" -gt 0 ]; do
		if answers; then return 0; fi
		case $said in
		*"ermission denied"*) # it runs now
			case $sudo in '' | none) ;; *) before=$sudo ;; esac
			;;
		esac
		tries=$((tries - 1))
		[ "$sudo" != none ] || tries=0 # nothing has started it
		[ "$tries" = 0 ] || sleep 1
	done
	printf '%s\n' "$said"
	exit 102
}

# apt_update reads the package lists. Another apt may be running, as on a cloud machine's first boot.
apt_options='-q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=1200 -o Acquire::Retries=3'
apt_update() {
	until { failed=; said=$(as_root apt-get $apt_options update 2>&1) || failed=1; [ -z "$failed" ]; }; do
		printf '%s\n' "$said"
		case $said in
		*"Could not get lock"* | *"Unable to lock"*) sleep 2 ;;
		*) return 1 ;;
		esac
	done
}

install_docker() {
	echo "this node has no Docker"
	[ "$sudo" != none ] || exit 101
	echo "installing Docker"
	if have apt-get; then
		apt_update && as_root apt-get $apt_options install -y --no-install-recommends docker.io ca-certificates || exit 101
		have docker || as_root apt-get $apt_options install -y --no-install-recommends docker-cli || exit 101
	elif have apk; then as_root apk add --no-cache --wait 1200 docker || exit 101
	elif have dnf; then as_root dnf install -y docker || as_root dnf install -y moby-engine || exit 101
	elif have yum; then as_root yum install -y docker || exit 101
	else
		echo "it has none of apt-get, apk, dnf and yum either"
		exit 101
	fi
	have docker || exit 101
}

# install_toolkit installs what gives NVIDIA's GPUs to containers, from NVIDIA's packages, and tells a running daemon, by
# a signal that leaves other containers alone.
install_toolkit() {
	[ "$sudo" != none ] || return 1
	echo "installing NVIDIA's container toolkit"
	repository=https://nvidia.github.io/libnvidia-container
	if ! have nvidia-ctk; then
		if have apt-get; then
			apt_update && as_root apt-get $apt_options install -y --no-install-recommends ca-certificates curl gnupg || return 1
			key=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg
			as_root sh -c "curl -fsSL $repository/gpgkey | gpg --batch --yes --dearmor -o $key" || return 1
			as_root sh -c "curl -fsSL $repository/stable/deb/nvidia-container-toolkit.list | sed 's#deb https://#deb [signed-by=$key] https://#g' >/etc/apt/sources.list.d/nvidia-container-toolkit.list" || return 1
			apt_update && as_root apt-get $apt_options install -y nvidia-container-toolkit || return 1
		elif have dnf || have yum; then
			manager=yum
			if have dnf; then manager=dnf; fi
			as_root sh -c "curl -fsSL $repository/stable/rpm/nvidia-container-toolkit.repo >/etc/yum.repos.d/nvidia-container-toolkit.repo" || return 1
			as_root $manager install -y nvidia-container-toolkit || return 1
		else
			return 1
		fi
	fi
	as_root nvidia-ctk runtime configure --runtime=docker || return 1
	if have systemctl && [ -d /run/systemd/system ]; then as_root systemctl reload docker || return 1
	else as_root sh -c 'kill -s HUP "$(cat /var/run/docker.pid)"' || return 1
	fi
	sleep 1
}

# show REFERENCE answers with the engine, its platform, and the image, if it is there: its ID, platform and digests.
show() {
	echo "engine $before $engine" >&3
	echo "platform $platform" >&3
	d image inspect --format 'image {{.Id}} {{.Os}}/{{.Architecture}}{{range .RepoDigests}} {{.}}{{end}}' "$1" 2>/dev/null >&3 || :
}

# pull NODE ROOT REFERENCE MARK pulls an image, with the content of a config.json in GPUTRAIN_DOCKER_AUTH if that is
# not empty. With a MARK, it gives an image that was not there before this further name, and its ID as a tag, and lists
# the images that were there in docker.had, in t/ of ROOT, in case it is killed in between.
pull() {
	node=$1 root=$2 reference=$3 mark=$4
	config=
	trap '[ -z "$config" ] || rm -rf "$config"' EXIT
	trap 'exit 143' TERM INT HUP
	if [ -n "$auth" ]; then
		for dir in /dev/shm "${XDG_RUNTIME_DIR:-/nonexistent}" "$root"; do
			if [ -d "$dir" ] && [ -w "$dir" ]; then break; fi
		done
		config=$(umask 077 && mktemp -d "$dir/gputrain-docker-$node.XXXXXX")
		(umask 077 && printf %s "$auth" >"$config/config.json")
		# The login's own settings may name another daemon.
		[ -n "${DOCKER_HOST-}" ] || DOCKER_HOST=$(d context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null) || DOCKER_HOST=
	fi
	had=$(d image ls --all --quiet --no-trunc)
	[ -z "$mark" ] || printf '%s\n' - "$had" >"$root/t/docker.had"
	tries=0
	while :; do
		failed=
		{ said=$(pull_once 2>&1 >&4) || failed=1; } 4>&1
		[ -n "$failed" ] || break
		printf '%s\n' "$said"
		case $said in
		*"executable file not found"*) exit 112 ;;
		*"no space left"*) exit 107 ;;
		*unauthorized* | *denied* | *"no basic auth"* | *"authentication required"*) exit 104 ;;
		*"no matching manifest"* | *"not match the specified platform"*) exit 106 ;;
		*"manifest unknown"* | *"not found"*) exit 105 ;;
		*toomanyrequests* | *"rate limit"*) exit 109 ;;
		esac
		tries=$((tries + 1))
		[ "$tries" -lt 3 ] || exit 108
		sleep "$tries"
	done
	id=$(d image inspect --format '{{.Id}}' "$reference")
	case "
$had
" in
	*"
$id
"*) ;;
	*) [ -z "$mark" ] || d tag "$id" "$mark:${id#sha256:}" ;;
	esac
	show "$reference"
}

pull_once() {
	if [ -z "$config" ]; then
		d pull "$reference"
	elif [ -n "$before" ] || [ -z "$DOCKER_HOST" ]; then
		$before env DOCKER_CONFIG="$config" "$engine" pull "$reference"
	else
		env DOCKER_CONFIG="$config" DOCKER_HOST="$DOCKER_HOST" "$engine" pull "$reference"
	fi
}

# start NAME FILE WANTED CACHE ARG... makes and starts a container by the arguments of docker create, with the machine's
# accelerators. There is FILE.begun before that, and FILE.done after it. With WANTED 1, it fails if it cannot give NVIDIA's
# GPUs. CACHE is a folder that it makes, or empty.
start() {
	name=$1 file=$2 wanted=$3
	[ -z "$4" ] || (umask 077 && mkdir -p "$4")
	shift 4
	rm -f "$file.done"
	: >"$file.begun"
	d rm -f "$name" >/dev/null 2>&1 || :
	devices=
	if [ -e /dev/kfd ]; then devices='--device /dev/kfd --device /dev/dri --security-opt seccomp=unconfined'; fi
	if [ -d /dev/infiniband ]; then devices="$devices --device /dev/infiniband"; fi
	limits='--ulimit memlock=-1 --ulimit stack=67108864'
	init=--init modes=none
	if [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; then modes='gpus cdi runtime install gpus cdi runtime none'; fi
	said= gpu_said=
	for mode in $modes; do
		gpus=
		case $mode in
		gpus) gpus='--gpus all' ;;
		cdi) gpus='--device nvidia.com/gpu=all' ;;
		runtime) gpus='--runtime nvidia --env NVIDIA_VISIBLE_DEVICES=all' ;;
		install)
			install_toolkit || { echo "NVIDIA's container toolkit cannot be installed"; modes=; }
			continue
			;;
		none)
			if [ -n "$gpu_said" ]; then
				printf '%s\n' "$gpu_said"
				[ "$wanted" = 0 ] || exit 111
				echo "Docker cannot give NVIDIA's GPUs to containers; the spec asks for none, so this one has none"
			fi
			;;
		esac
		# After a failed installation there is no point in trying the same again.
		[ -n "$modes" ] || [ "$mode" = none ] || continue
		if attempt "$@"; then
			: >"$file.done"
			return 0
		fi
		again=1
		case $said in
		*docker-init*) init= ;; # it is not installed: the shell does what it would
		*rlimit*)
			echo "Docker may not raise limits here: the container has the daemon's"
			limits=
			;;
		*) again= ;;
		esac
		if [ -n "$again" ] && attempt "$@"; then
			: >"$file.done"
			return 0
		fi
		case $mode in
		none) ;;
		*)
			case $said in
			*"could not select device driver"* | *CDI* | *"runtime name"* | *nvidia* | *NVIDIA* | *"gathering device information"*)
				gpu_said=$said
				continue
				;;
			esac
			;;
		esac
		break
	done
	printf '%s\n' "$said"
	case $said in
	*"no space left"*) exit 107 ;;
	*"exec format error"*) exit 106 ;;
	*"executable file not found"*) exit 110 ;;
	*"No such image"*) exit 113 ;;
	esac
	[ -z "$shell" ] || exit 110
	exit 112
}

# attempt makes and starts the container once, and sets said to what is wrong. A container whose init finds no shell starts,
# and ends at once: shell is empty unless it is that which is wrong.
attempt() {
	failed= shell=
	said=$({ d create $init $gpus $devices $limits "$@" && d start "$name"; } 2>&1 >/dev/null) || failed=1
	if [ -z "$failed" ]; then
		said=$(d exec "$name" sh -c : 2>&1 >/dev/null) || shell=none
		[ -n "$shell" ] || return 0
	fi
	d rm -f "$name" >/dev/null 2>&1 || :
	return 1
}

command=$1
shift
find_engine
case $command in
look) show "$1" ;;
find)
	echo "engine $before $engine" >&3
	d container inspect --format 'container {{.State.Running}} {{.Image}}' "$1" 2>/dev/null >&3 || :
	;;
*) "$command" "$@" ;;
esac
