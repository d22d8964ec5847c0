# Sees to it that this image has an SSH server. The script is fed to sh through
# its standard input; it ends when that input does.
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
has() { command -v "$1" >/dev/null 2>&1; }

install_sshd() {
	if has apt-get; then
		DEBIAN_FRONTEND=noninteractive
		export DEBIAN_FRONTEND
		apt-get -qq update || return
		apt-get -qq install -y --no-install-recommends openssh-server || return
		rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
	elif has apk; then
		apk add --no-cache openssh-server
	elif has microdnf; then
		microdnf -y install --setopt=install_weak_deps=0 openssh-server && microdnf clean all
	elif has dnf; then
		dnf -y install --setopt=install_weak_deps=False openssh-server && dnf clean all
	elif has yum; then
		yum -y install openssh-server && yum clean all
	else
		echo 'gputrain: no package manager'
		return 1
	fi
}

main() {
	if has sshd; then
		echo 'gputrain: image: as it is'
	else
		install_sshd </dev/null || exit 1
		has sshd || { echo 'openssh-server was installed, but there is no sshd'; exit 1; }
		# Every node gets a key of its own; one in an image would be everyone's.
		rm -f /etc/ssh/ssh_host_*
		echo 'gputrain: image: made ready'
	fi
	cat >/dev/null # the engine takes the image now; then this container is done
}

main
