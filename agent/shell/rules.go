package shell

import (
	"fmt"
	"slices"
	"strings"
)

// A Leave says how far a person's leave for the session, or for ever, reaches.
type Leave string

// How far leave reaches.
const (
	Once    Leave = "this command, once"
	Program Leave = "the same program"
	Target  Leave = "the same program on the same targets"
)

// A Rule is one thing that is looked for.
type Rule struct {
	Name  string
	Class Class
	Words string // what it is, told to a person: "it …"
	Leave Leave
}

// Rules returns the table of all rules, in order.
func Rules() []Rule { return slices.Clone(rules) }

// rules is the table. It never changes.
var rules = []Rule{
	{"unreadable", Dangerous, "it cannot be read as a shell command, so it cannot be told what runs", Once},
	{"too-long", Dangerous, "it is too long to be judged", Once},
	{"too-involved", Dangerous, "it is too involved to be followed to its end", Once},
	{"hidden-characters", Dangerous, "it holds characters that are not seen as what they are", Once},
	{"unknown-command", Dangerous, "it cannot be told what runs: the name of a command, or a script, is only made when it runs", Once},
	{"unknown-target", Dangerous, "it deletes or overwrites something whose name is only known when it runs", Once},

	{"delete-root", Blocked, "it deletes or moves away the root of the file system, or a folder of the system", Once},
	{"delete-home", Blocked, "it deletes or moves away a whole home folder", Once},
	{"format", Blocked, "it formats or partitions a disk, or wipes what is on it", Once},
	{"write-device", Blocked, "it writes to a disk or to memory directly", Once},
	{"overwrite-system", Blocked, "it overwrites a file that the system needs to start or to let people in", Once},
	{"fork-bomb", Blocked, "it starts copies of itself without end", Once},
	{"power", Blocked, "it shuts down or restarts the machine", Once},
	{"kernel", Blocked, "it loads or removes a part of the kernel, or starts another one", Once},
	{"kill-all", Blocked, "it ends all processes, or the one that all depend on", Once},
	{"system-permissions", Blocked, "it changes owner or permissions of the whole system or of a home folder", Once},

	{"delete-recursive", Dangerous, "it deletes folders with all that is in them", Target},
	{"delete-found", Dangerous, "it deletes whatever a search or a list yields", Once},
	{"destroy", Dangerous, "it makes the content of files unrecoverable", Target},
	{"open-permissions", Dangerous, "it lets everybody change files, or lets a program run with another's rights", Target},
	{"owner", Dangerous, "it changes the owner of many files", Target},
	{"run-downloaded", Dangerous, "it runs what it has just downloaded", Once},
	{"run-piped", Dangerous, "it runs text that another program makes", Once},
	{"run-code", Dangerous, "it runs a program that stands in the command itself", Once},
	{"eval", Dangerous, "it runs text as a command (eval)", Once},
	{"environment", Dangerous, "it changes which programs or libraries are used", Target},
	{"git-force", Dangerous, "it overwrites or deletes what others see in a repository", Target},
	{"git-discard", Dangerous, "it throws away work that is not kept elsewhere", Target},
	{"git-run", Dangerous, "it makes git run another program", Once},
	{"root", Dangerous, "it runs with the rights of another user", Program},
	{"packages", Dangerous, "it installs or removes software, and may run its scripts", Target},
	{"service", Dangerous, "it starts, stops or changes services of the system", Target},
	{"kill", Dangerous, "it ends running programs", Target},
	{"schedule", Dangerous, "it makes something run later or again and again", Once},
	{"write-startup", Dangerous, "it changes files that run by themselves or let people in: start-up files, SSH keys, timers, hooks", Target},
	{"write-system", Dangerous, "it changes files of the system", Target},
	{"own-home", Dangerous, "it touches the daemon's own configuration, memory or store", Once},
	{"own-daemon", Dangerous, "it controls the daemon that runs it", Once},
	{"secrets", Dangerous, "it reads or changes a file that holds passwords or keys", Target},
	{"upload", Dangerous, "it sends a file to another machine", Target},
	{"remote", Dangerous, "it does something on another machine", Target},
	{"listen", Dangerous, "it opens this machine to connections from the network, or makes a tunnel", Target},
	{"network", Dangerous, "it changes the network or the firewall of the machine", Target},
	{"accounts", Dangerous, "it changes users, groups or passwords", Target},
	{"disk", Dangerous, "it mounts or changes disks", Target},
	{"container", Dangerous, "it leaves a container's walls, or gets rights on the machine through one", Once},
	{"infrastructure", Dangerous, "it deletes containers, volumes, or things in a cloud or cluster", Target},
	{"database", Dangerous, "it deletes data of a database", Once},
}

// Markdown is the table of rules as docs/approvals.md shows it.
func Markdown() string {
	var b strings.Builder
	for _, c := range []Class{Blocked, Dangerous} {
		fmt.Fprintf(&b, "### %s\n\n| rule | what the person reads | leave covers |\n|---|---|---|\n", map[Class]string{
			Blocked: "Never run", Dangerous: "Run only with leave",
		}[c])
		for _, r := range rules {
			leave := string(r.Leave)
			if c == Blocked {
				leave = "–"
			}
			if r.Class == c {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, r.Words, leave)
			}
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
