package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/doctor"
	"hermesd/cmd/internal/tui/text"
	"hermesd/internal/diskspace"
)

func (c *cli) doctorCmd() *cobra.Command {
	var o doctor.Options
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check the home directory, host, configuration and daemon; print a fix for each problem", Args: args(0, 0),
		Long: `Check the home directory, host, configuration and daemon; print a fix for each
problem. It fails if there is an error; warnings alone do not make it fail. Nobody
outside of the machine is asked, unless --online is given.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.doctor(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.Verify, "verify", false, "read every record of the store and check it")
	f.BoolVar(&o.Repair, "fix", false, "put right what can be: modes of files, leftovers")
	f.BoolVar(&o.Online, "online", false, "also ask the model's server and the platforms whether they answer")
	return cmd
}

func (c *cli) doctor(ctx context.Context, o doctor.Options) error {
	o.Config, o.Report, o.Err = config.Load(config.Options{Home: c.home, File: c.file, Env: c.env})
	home, err := config.ResolveHome(c.home, c.env)
	if err != nil {
		return err
	}
	o.Home, o.Now = home, time.Now()
	o.Ask, o.Service, o.Space, o.Ping = c.withClient, c.serviceHint, diskspace.Of, doctor.Ping
	o.Sandbox = func(ctx context.Context) admin.Sandbox { return app.CheckSandbox(ctx, o.Config, o.Report, home) }
	found := doctor.Run(ctx, o)
	for i := range found {
		found[i].Text, found[i].Fix = o.Report.Secrets.Mask(found[i].Text), o.Report.Secrets.Mask(found[i].Fix)
	}
	if err := c.show(found, func() string { return doctorText(found) }); err != nil {
		return err
	}
	if doctor.Failed(found) {
		return &exitError{exitFailed}
	}
	return nil
}

// serviceHint returns what to do about the service, "" for nothing, and whether it is
// installed.
func (c *cli) serviceHint(ctx context.Context) (hint string, installed bool) {
	s, err := c.service(unit{})
	if err != nil {
		return "", false
	}
	if _, err := os.Stat(s.Path()); err != nil {
		return "", false
	}
	st, err := s.State(ctx)
	if err != nil {
		return err.Error(), true
	}
	return st.Hint(), true
}

func doctorText(found []doctor.Finding) string {
	var b strings.Builder
	count := map[doctor.Level]int{}
	for _, f := range found {
		mark := map[doctor.Level]string{doctor.OK: "ok", doctor.Warning: "WARNING", doctor.Error: "ERROR"}[f.Level]
		if f.Fixed {
			mark = "fixed"
		} else {
			count[f.Level]++
		}
		fmt.Fprintf(&b, "%-8s %-10s %s\n", mark, f.Check, text.Line(f.Text))
		if f.Fix != "" {
			fmt.Fprintf(&b, "%-19s → %s\n", "", text.Line(f.Fix))
		}
	}
	fmt.Fprintf(&b, "\n%s, %s.\n", text.Count(count[doctor.Error], "error"), text.Count(count[doctor.Warning], "warning"))
	return b.String()
}
