# Prints facts about a node, in sections that begin with @. The directory of tasks is $1.
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL PATH
echo @clock
date +%s.%N
echo @limits
echo "memlock $(ulimit -l 2>/dev/null)"
echo "files $(ulimit -n 2>/dev/null)"
echo @shm
df -Pk /dev/shm 2>/dev/null
echo @disk
df -Pk "${1:-.}" 2>/dev/null
echo @ip
ip -o addr show 2>/dev/null
echo @ifconfig
ifconfig 2>/dev/null
echo @route
cat /proc/net/route 2>/dev/null
echo @trie
head -n 2000 /proc/net/fib_trie 2>/dev/null
echo @inet6
cat /proc/net/if_inet6 2>/dev/null
echo @ib
for p in /sys/class/infiniband/*/ports/*/state; do
	[ -r "$p" ] && echo "$p $(cat "$p")"
done
echo @amd
for d in /sys/class/drm/card*/device; do
	[ "$(cat "$d/vendor" 2>/dev/null)" = 0x1002 ] && [ -r "$d/mem_info_vram_total" ] && cat "$d/device"
done
echo @amdgpu
cat /sys/module/amdgpu/version 2>/dev/null
echo @nvidia
if command -v nvidia-smi >/dev/null 2>&1; then
	limit=
	command -v timeout >/dev/null 2>&1 && limit="timeout 20"
	$limit nvidia-smi --query-gpu=driver_version,name --format=csv,noheader 2>/dev/null
fi
echo @end
