package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/tui/text"
)

// Set by the linker in releases: the tag, the commit and the time of the commit
// (RFC 3339).
var (
	version = "dev"
	commit  string
	date    string
)

// A build describes the version and the modules of the program.
type build struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit,omitempty"`
	Time     string   `json:"time,omitempty"`
	Modified bool     `json:"modified,omitempty"` // there were changes on top of the commit
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Modules  []module `json:"modules"`
}

type module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

func buildOf(info *debug.BuildInfo) build {
	b := build{Version: version, Commit: commit, Time: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Modules: []module{}}
	if info == nil {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		b.Modules = append(b.Modules, module{d.Path, d.Version})
	}
	return b
}

func (c *cli) versionCmd() *cobra.Command {
	var modules bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print version, commit and Go version", Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo()
			b := buildOf(info)
			return c.show(b, func() string { return b.text(modules) })
		},
	}
	cmd.Flags().BoolVar(&modules, "modules", false, "also print the versions of the modules that it is built from")
	return cmd
}

func (b build) text(modules bool) string {
	var s strings.Builder
	commit := cmp.Or(b.Commit, "unknown commit")
	if b.Modified {
		commit += ", modified"
	}
	fmt.Fprintf(&s, "hermesd %s (%s)\n%s %s\n", b.Version, commit, b.Go, b.Platform)
	if !modules {
		return s.String()
	}
	s.WriteString("\n")
	rows := make([][]string, len(b.Modules))
	for i, m := range b.Modules {
		rows[i] = []string{m.Path, m.Version}
	}
	s.WriteString(text.Table([]string{"MODULE", "VERSION"}, rows))
	return s.String()
}

func (c *cli) completionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print a script that completes commands in your shell", Args: args(1, 1),
		Long: `Print a script that completes commands in your shell.

  bash         hermesd completion bash > ~/.local/share/bash-completion/completions/hermesd
  zsh          hermesd completion zsh > "${fpath[1]}/_hermesd"
  fish         hermesd completion fish > ~/.config/fish/completions/hermesd.fish
  powershell   hermesd completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(c.out, true)
			case "zsh":
				return root.GenZshCompletion(c.out)
			case "fish":
				return root.GenFishCompletion(c.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(c.out)
			}
			return &usageError{fmt.Sprintf("there is no completion for %q; it is for bash, zsh, fish or powershell", args[0])}
		},
	}
}
