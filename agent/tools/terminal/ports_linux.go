package terminal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listeningPorts returns the TCP ports of this network namespace on which only the processes
// in roots, and those that they have started, listen.
func listeningPorts(roots []int) []uint16 {
	owners, err := listeners()
	if err != nil {
		return nil
	}
	own := map[string]bool{}
	for _, pid := range descendants(roots) {
		for _, inode := range sockets(pid) {
			own[inode] = true
		}
	}
	var ports []uint16
	for port, inodes := range owners {
		if !slices.ContainsFunc(inodes, func(inode string) bool { return !own[inode] }) {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

// listeners returns the inodes of the sockets that listen on each TCP port.
func listeners() (map[uint16][]string, error) {
	all := map[uint16][]string{}
	for _, name := range []string{"tcp", "tcp6"} {
		raw, err := os.ReadFile("/proc/self/net/" + name)
		if name == "tcp6" && errors.Is(err, fs.ErrNotExist) {
			continue // there is no IPv6
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(raw)) {
			const listens = "0A"
			f := strings.Fields(line) // number, local address, remote address, state, …, inode
			if len(f) < 10 || f[3] != listens {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				return nil, err
			}
			all[uint16(port)] = append(all[uint16(port)], f[9])
		}
	}
	return all, nil
}

// descendants returns roots and the processes below them.
func descendants(roots []int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// The name of the program, in parentheses, may contain anything.
		f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || len(f) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(f[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	all := slices.Clone(roots)
	for i := 0; i < len(all); i++ {
		for _, pid := range children[all[i]] {
			if !slices.Contains(all, pid) {
				all = append(all, pid)
			}
		}
	}
	return all
}

// sockets returns the inodes of the sockets that a process has open.
func sockets(pid int) (inodes []string) {
	links, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	for _, l := range links {
		target, err := os.Readlink(l)
		if inode, ok := strings.CutPrefix(target, "socket:["); err == nil && ok {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes
}
