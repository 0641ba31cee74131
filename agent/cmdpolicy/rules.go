package cmdpolicy

import (
	"fmt"
	"slices"
	"strings"
)

// An ApprovalScope determines which later commands an approval for the session or for
// always covers.
type ApprovalScope string

// The approval scopes.
const (
	ThisCommand   ApprovalScope = "this command, once"
	SameProgram   ApprovalScope = "the same program"
	SameTargets   ApprovalScope = "the same program on the same targets"
	SameAddresses ApprovalScope = "the same addresses and ports"
)

// A Rule is one pattern that makes a command dangerous or blocked.
type Rule struct {
	Name        string
	Class       Class
	Description string // text for the user: "it …"
	Scope       ApprovalScope
}

// Rules returns a copy of the table of all rules, in order.
func Rules() []Rule { return slices.Clone(rules) }

// rules is the table. It is never changed.
var rules = []Rule{
	{"unreadable", Dangerous, "it cannot be read as a shell command, so it cannot be told what runs", ThisCommand},
	{"too-long", Dangerous, "it is too long to be judged", ThisCommand},
	{"too-involved", Dangerous, "it is too involved to be followed to its end", ThisCommand},
	{"hidden-characters", Dangerous, "it holds characters that are not seen as what they are", ThisCommand},
	{"unknown-command", Dangerous, "the command or script is computed at run time and cannot be checked in advance", ThisCommand},
	{"unknown-target", Dangerous, "it deletes or overwrites something whose name is only known when it runs", ThisCommand},

	{"delete-root", Blocked, "it deletes or moves away the root of the file system, or a folder of the system", ThisCommand},
	{"delete-home", Blocked, "it deletes or moves away a whole home folder", ThisCommand},
	{"format", Blocked, "it formats or partitions a disk, or wipes what is on it", ThisCommand},
	{"write-device", Blocked, "it writes to a disk or to memory directly", ThisCommand},
	{"overwrite-system", Blocked, "it overwrites a file that the system needs to start or to let people in", ThisCommand},
	{"fork-bomb", Blocked, "it starts copies of itself without end", ThisCommand},
	{"power", Blocked, "it shuts down or restarts the machine", ThisCommand},
	{"kernel", Blocked, "it loads or removes a part of the kernel, or starts another one", ThisCommand},
	{"kill-all", Blocked, "it ends all processes, or the one that all depend on", ThisCommand},
	{"system-permissions", Blocked, "it changes owner or permissions of the whole system or of a home folder", ThisCommand},

	{"delete-recursive", Dangerous, "it deletes folders with all that is in them", SameTargets},
	{"delete-found", Dangerous, "it deletes whatever a search or a list yields", ThisCommand},
	{"destroy", Dangerous, "it makes the content of files unrecoverable", SameTargets},
	{"open-permissions", Dangerous, "it lets everybody change files, or lets a program run with another's rights", SameTargets},
	{"owner", Dangerous, "it changes the owner of many files", SameTargets},
	{"run-downloaded", Dangerous, "it runs what it has just downloaded", ThisCommand},
	{"run-piped", Dangerous, "it runs text that another program makes", ThisCommand},
	{"run-code", Dangerous, "it runs a program that stands in the command itself", ThisCommand},
	{"eval", Dangerous, "it runs text as a command (eval)", ThisCommand},
	{"environment", Dangerous, "it changes which programs or libraries are used", SameTargets},
	{"git-force", Dangerous, "it overwrites or deletes what others see in a repository", SameTargets},
	{"git-discard", Dangerous, "it throws away work that is not kept elsewhere", SameTargets},
	{"git-run", Dangerous, "it makes git run another program", ThisCommand},
	{"root", Dangerous, "it runs with the rights of another user", SameProgram},
	{"packages", Dangerous, "it installs or removes software, and may run its scripts", SameTargets},
	{"service", Dangerous, "it starts, stops or changes services of the system", SameTargets},
	{"kill", Dangerous, "it ends running programs", SameTargets},
	{"schedule", Dangerous, "it makes something run later or again and again", ThisCommand},
	{"write-startup", Dangerous, "it changes files that run by themselves or let people in: start-up files, SSH keys, timers, hooks, CI", SameTargets},
	{"write-instructions", Dangerous, "it changes a file that instructs the agent itself", SameTargets},
	{"write-system", Dangerous, "it changes files of the system", SameTargets},
	{"own-home", Dangerous, "it touches the daemon's own configuration, memory or store", ThisCommand},
	{"own-daemon", Dangerous, "it controls the daemon that runs it", ThisCommand},
	{"secrets", Dangerous, "it reads or changes a file that holds passwords or keys", SameTargets},
	{"upload", Dangerous, "it sends a file to another machine", SameTargets},
	{"remote", Dangerous, "it does something on another machine", SameTargets},
	{"listen", Dangerous, "it opens this machine to connections from the network, or makes a tunnel", SameTargets},
	{"network", Dangerous, "it changes the network or the firewall of the machine", SameTargets},
	{"accounts", Dangerous, "it changes users, groups or passwords", SameTargets},
	{"disk", Dangerous, "it mounts or changes disks", SameTargets},
	{"container", Dangerous, "it leaves a container's walls, or gets rights on the machine through one", ThisCommand},
	{"infrastructure", Dangerous, "it deletes containers, volumes, or things in a cloud or cluster", SameTargets},
	{"database", Dangerous, "it deletes data of a database", ThisCommand},
	{"address", Dangerous, "it names an address of this machine, of the local network or of a cloud's metadata service", SameAddresses},
}

// Markdown returns the table of rules as printed in docs/approvals.md.
func Markdown() string {
	var b strings.Builder
	for _, c := range []Class{Blocked, Dangerous} {
		fmt.Fprintf(&b, "### %s\n\n| rule | what the person reads | leave covers |\n|---|---|---|\n", map[Class]string{
			Blocked: "Never run", Dangerous: "Run only with leave",
		}[c])
		for _, r := range rules {
			leave := string(r.Scope)
			if c == Blocked {
				leave = "–"
			}
			if r.Class == c {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, r.Description, leave)
			}
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
