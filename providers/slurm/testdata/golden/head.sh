#!/bin/bash
gt_comment='gputrain/1 pool=p1 owner=host/1/2 rank=0 created=1795767031 tag:team=a+b%3Dc'
gt_mark='gputrain/1 pool=p1'
gt_key='ssh-ed25519 AAAA a'\''b"c$(touch /tmp/never) \d'
gt_work="/scratch/$USER"
gt_work_given=1
gt_sshd=/usr/sbin/sshd
gt_ports=(20000 31999)
gt_lease=900
gt_sweep=1
gt_mounts=('/a'\''b' '')
gt_start='