package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"hermesd/agent/skills"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/tui/text"
)

func (c *cli) skillsCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "skills", Short: "Show the skills that were found, which are offered, and what is wrong with them"})
	var in string
	list := &cobra.Command{
		Use: "list", Short: "List all skills, and why some are not offered", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			tools, err := c.toolsOf(cmd, in)
			if err != nil {
				return err
			}
			return c.skillsList(tools)
		},
	}
	list.Flags().StringVar(&in, "session", "", "as in that `conversation`, whose tools decide too: its id or title")
	cmd.AddCommand(list,
		&cobra.Command{
			Use: "view NAME [FILE]", Short: "Print a skill as the model reads it, or another file of it", Args: args(1, 2),
			RunE: func(_ *cobra.Command, args []string) error { return c.skillsView(args[0], strings.Join(args[1:], "")) },
		},
		&cobra.Command{
			Use: "check", Short: "Say what is wrong with the skills; fails if anything is", Args: args(0, 0),
			RunE: func(*cobra.Command, []string) error { return c.skillsCheck() },
		})
	return cmd
}

// toolsOf returns the names of the tools of a session; nil if none is named.
func (c *cli) toolsOf(cmd *cobra.Command, session string) ([]string, error) {
	if session == "" {
		return nil, nil
	}
	names := []string{}
	err := c.withClient(cmd.Context(), func(client *admin.Client) error {
		p, err := client.Prompt(cmd.Context(), session)
		for _, t := range p.Tools {
			names = append(names, t.Name)
		}
		return err
	})
	return names, err
}

// library returns the skills and the names of those disabled in the configuration.
func (c *cli) library() (*skills.Library, []string, error) {
	cfg, home, err := c.loadConfig()
	if err != nil {
		return nil, nil, err
	}
	l, err := app.Library(cfg, home)
	return l, cfg.Skills.Disabled, err
}

type skillRow struct {
	Name        string   `json:"name"`
	Category    string   `json:"category"`
	Description string   `json:"description"`
	Dir         string   `json:"dir"`
	ReadOnly    bool     `json:"read_only"`
	Hidden      string   `json:"hidden,omitempty"` // reason why it is not offered
	Problems    []string `json:"problems,omitempty"`
}

func (c *cli) skillsList(tools []string) error {
	l, disabled, err := c.library()
	if err != nil {
		return err
	}
	list := []skillRow{}
	for _, s := range l.Catalog().Skills() {
		list = append(list, skillRow{
			Name: s.Name, Category: s.Category, Description: s.Description, Dir: s.Dir, ReadOnly: s.ReadOnly,
			Hidden: s.Hidden(skills.Filter{Disabled: disabled, Tools: tools}), Problems: s.Problems,
		})
	}
	bad := len(l.Check())
	return c.show(list, func() string { return skillsText(list, bad) })
}

func skillsText(list []skillRow, bad int) string {
	out := "There are no skills. A skill is a folder with a SKILL.md below skills/ in the home.\n"
	if len(list) > 0 {
		rows := make([][]string, len(list))
		hidden := 0
		for i, s := range list {
			state := "offered"
			if s.Hidden != "" {
				state, hidden = "hidden: "+s.Hidden, hidden+1
			}
			rows[i] = []string{text.Cut(s.Category, 30), s.Name, text.Cut(s.Description, 60), text.Cut(state, 80)}
		}
		out = text.Table([]string{"CATEGORY", "NAME", "DESCRIPTION", "STATE"}, rows) + fmt.Sprintf("\n%s, %d hidden.\n", text.Count(len(list), "skill"), hidden)
	}
	if bad > 0 {
		out += strconv.Itoa(bad) + " problems were found: `hermesd skills check` tells them.\n"
	}
	return out
}

// viewed is the output of `skills view`.
type viewed struct {
	Name  string   `json:"name"`
	File  string   `json:"file"`
	Text  string   `json:"text"`
	Files []string `json:"files"`
}

func (c *cli) skillsView(name, file string) error {
	l, _, err := c.library()
	if err != nil {
		return err
	}
	s, ok := l.Catalog().Find(name)
	if !ok {
		return fmt.Errorf("there is no skill %q; `hermesd skills list` names them all", name)
	}
	main, err := l.View(s.Name, "")
	var blocked *skills.BlockedError
	if err == nil && file != "" && file != main.File && !slices.Contains(main.Files, file) {
		return fmt.Errorf("the skill %s has no file %q; it has %s", s.Name, file, strings.Join(append([]string{main.File}, main.Files...), ", "))
	}
	v := main
	if file != "" {
		v, err = l.View(s.Name, file)
	}
	switch {
	case errors.As(err, &blocked):
		return fmt.Errorf("%s is kept from the model: it contains potential prompt injection (%s); read it with an editor, in %s",
			blocked.What, strings.Join(blocked.Findings, ", "), s.Dir)
	case err != nil:
		return err
	}
	out := viewed{Name: s.Name, File: v.File, Text: v.Text, Files: append([]string{}, main.Files...)}
	return c.show(out, func() string {
		t := strings.TrimRight(text.Clean(out.Text), "\n") + "\n"
		if file == "" && len(out.Files) > 0 {
			t += "\nFurther files: " + text.Line(strings.Join(out.Files, ", ")) + "\n"
		}
		return t
	})
}

func (c *cli) skillsCheck() error {
	l, _, err := c.library()
	if err != nil {
		return err
	}
	found := append([]skills.Problem{}, l.Check()...)
	n := len(l.Catalog().Skills())
	err = c.show(found, func() string {
		if len(found) == 0 {
			return fmt.Sprintf("%s, nothing is wrong with them.\n", text.Count(n, "skill"))
		}
		var b strings.Builder
		for _, w := range found {
			fmt.Fprintf(&b, "%s: %s\n", text.Line(w.Path), text.Line(w.Text))
		}
		return b.String()
	})
	if err == nil && len(found) > 0 {
		return fmt.Errorf("%s in %s; correct the files that are named", text.Count(len(found), "problem"), text.Count(n, "skill"))
	}
	return err
}
