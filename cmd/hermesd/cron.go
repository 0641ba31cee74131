package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/schedule"
)

func (c *cli) cronCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "cron", Short: "Show, make and change scheduled prompts"})
	cmd.Long = `Show, make and change scheduled prompts.

A schedule is one of
  30m, in 2h                      once, after that time
  every 2h                        again and again
  every weekday at 9am            days and a time of day
  "0 9 * * 1-5", @daily           a cron expression
  2026-12-24T18:00                once, in the configured zone

JOB is the id of a job or its name. Jobs run only while the daemon does.`
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the jobs, those that are due next first", Args: args(0, 0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				home, err := config.ResolveHome(c.home, c.env)
				if err != nil {
					return err
				}
				return ask(cmd.Context(), c, (*admin.Client).Jobs, func(list []schedule.JobView) string {
					if s := app.UnimportedJobs(home); s != "" && len(list) == 0 {
						c.printNote("%s", s)
					}
					return jobsText(list, time.Now())
				})
			},
		},
		c.cronCreateCmd(), c.cronEditCmd(),
		c.cronChangeCmd("pause", "Keep a job from running"), c.cronChangeCmd("resume", "End a pause"),
		c.cronChangeCmd("run", "Run a job once now, in addition to its schedule"), c.cronChangeCmd("remove", "Remove a job and its history"),
		c.cronHistoryCmd(), c.cronStatusCmd(), c.cronImportCmd(),
	)
	return cmd
}

// jobFlags defines the flags for the properties of a job.
func jobFlags(f *pflag.FlagSet) {
	f.String("name", "", "short `name`; otherwise the beginning of the prompt")
	f.String("timezone", "", "IANA `zone` of the schedule, such as Europe/Berlin; otherwise the configured one")
	f.StringSlice("deliver", nil, "`target` of the answer: local, PLATFORM, PLATFORM:CHAT, …; may be given several times")
	f.StringSlice("skill", nil, "`skill` that is loaded first; may be given several times")
	f.Int("repeat", 0, "how many runs there will be; 0: no end")
	f.String("script", "", "`file` below the home's scripts folder that runs first")
	f.Bool("no-agent", false, "deliver what the script writes, without a model")
	f.StringSlice("context-from", nil, "`job` whose newest output comes before the prompt; may be given several times")
	f.String("workdir", "", "working `directory` of the runs")
	f.String("model", "", "model of the runs")
	f.String("provider", "", "provider of that model")
}

// jobDraft returns the changes that the given flags make.
func jobDraft(f *pflag.FlagSet) schedule.JobPatch {
	var d schedule.JobPatch
	word := func(name string) *string {
		if !f.Changed(name) {
			return nil
		}
		v, _ := f.GetString(name) // the flag is a string
		return &v
	}
	list := func(name string) *[]string {
		if !f.Changed(name) {
			return nil
		}
		v, _ := f.GetStringSlice(name) // the flag is a list
		return &v
	}
	d.Name, d.Zone, d.Script, d.Workdir, d.Model, d.Provider = word("name"), word("timezone"), word("script"), word("workdir"), word("model"), word("provider")
	d.Deliver, d.Skills, d.Context = list("deliver"), list("skill"), list("context-from")
	if f.Changed("repeat") {
		n, _ := f.GetInt("repeat") // the flag is a number
		d.Repeat = &n
	}
	if f.Changed("no-agent") {
		v, _ := f.GetBool("no-agent") // the flag is a boolean
		d.ScriptOnly = &v
	}
	return d
}

func (c *cli) cronCreateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create SCHEDULE [PROMPT]", Short: "Make a job", Args: args(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := jobDraft(cmd.Flags())
			d.Schedule = &args[0]
			if len(args) > 1 {
				d.Prompt = &args[1]
			}
			return c.job(cmd.Context(), c.withZone, "Created", func(client *admin.Client) (admin.Job, error) { return client.CreateJob(cmd.Context(), d) })
		},
	}
	jobFlags(cmd.Flags())
	return cmd
}

func (c *cli) cronEditCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "edit JOB", Short: "Change what the flags name of a job", Args: args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := jobDraft(cmd.Flags())
			for name, to := range map[string]**string{"schedule": &d.Schedule, "prompt": &d.Prompt} {
				if v, _ := cmd.Flags().GetString(name); cmd.Flags().Changed(name) { // the flag is a string
					*to = &v
				}
			}
			if d == (schedule.JobPatch{}) {
				return &usageError{"nothing is to be changed; `" + cmd.CommandPath() + " --help` lists the flags"}
			}
			return c.job(cmd.Context(), c.withZone, "Changed", func(client *admin.Client) (admin.Job, error) { return client.EditJob(cmd.Context(), args[0], d) })
		},
	}
	jobFlags(cmd.Flags())
	cmd.Flags().String("schedule", "", "new schedule; it counts from now")
	cmd.Flags().String("prompt", "", "new prompt")
	return cmd
}

func (c *cli) cronChangeCmd(action, short string) *cobra.Command {
	said := map[string]string{"pause": "Paused", "resume": "Resumed", "run": "To run now", "remove": "Removed"}[action]
	return &cobra.Command{
		Use: action + " JOB", Short: short, Args: args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.job(cmd.Context(), c.withClient, said, func(client *admin.Client) (admin.Job, error) { return client.ChangeJob(cmd.Context(), args[0], action) })
		},
	}
}

// withZone is like withClient, but without a daemon it fails if the configuration has
// errors: the time zone of schedules is not known then, and a job keeps the one it gets.
func (c *cli) withZone(ctx context.Context, f func(*admin.Client) error) error {
	return c.dial(ctx, f, func(home string, _ error) error {
		if _, _, err := c.reload(); err != nil {
			return err
		}
		return c.withStore(ctx, home, f)
	})
}

// job calls do with a client of with and prints the resulting job after said.
func (c *cli) job(ctx context.Context, with func(context.Context, func(*admin.Client) error) error, said string, do func(*admin.Client) (admin.Job, error)) error {
	return with(ctx, func(client *admin.Client) error {
		j, err := do(client)
		if err != nil {
			return err
		}
		if !j.Live {
			c.printNote("no daemon is running; jobs run once it does: %s", c.next("run"))
		}
		return c.show(j, func() string { return said + ": " + jobText(j.JobView) })
	})
}

func inZone(v schedule.JobView, at time.Time) string {
	if p, err := v.Schedule.Plan(); err == nil {
		at = at.In(p.Location())
	}
	return at.Format("Mon 2006-01-02 15:04 MST")
}

func jobText(v schedule.JobView) string {
	b := sheet{width: 11}
	fmt.Fprintf(&b, "%s %s\n", v.ID, text.Line(v.Name))
	b.optional("  status", v.Status)
	b.optional("  schedule", v.Schedule.Text+" ("+v.Schedule.Zone+")")
	for i, at := range v.Next {
		name := "  next"
		if i > 0 {
			name = ""
		}
		b.line(name, "%s", inZone(v, at))
	}
	b.optional("  deliver", strings.Join(v.Deliver, ", "))
	b.optional("  skills", strings.Join(v.Skills, ", "))
	b.optional("  script", v.Script)
	if v.Repeat > 0 {
		b.optional("  runs", fmt.Sprintf("%d of %d", v.State.Runs, v.Repeat))
	}
	return b.String()
}

func jobsText(list []schedule.JobView, now time.Time) string {
	if len(list) == 0 {
		return "There are no scheduled prompts; `hermesd cron create --help` says how to make one.\n"
	}
	rows := make([][]string, len(list))
	for i, v := range list {
		next, last := "", ""
		if len(v.Next) > 0 {
			next = inZone(v, v.Next[0])
		}
		if !v.State.Ended.IsZero() {
			last = string(v.State.Result) + ", " + text.Ago(v.State.Ended, now)
		}
		rows[i] = []string{string(v.ID), text.Cut(v.Name, 40), v.Status, text.Cut(v.Schedule.Text, 30), next, text.Cut(strings.Join(v.Deliver, ","), 30), last}
	}
	return text.Table([]string{"ID", "NAME", "STATUS", "SCHEDULE", "NEXT", "DELIVER", "LAST RUN"}, rows)
}

func (c *cli) cronHistoryCmd() *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use: "history [JOB]", Short: "Show when jobs were due, and what became of each time", Args: args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if most < 1 || most > 1000 {
				return &usageError{fmt.Sprintf("--limit is %d; it must be from 1 to 1000", most)}
			}
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) ([]schedule.Occurrence, error) {
				return client.Slots(ctx, strings.Join(args, ""), most)
			}, occurrencesText)
		},
	}
	cmd.Flags().IntVar(&most, "limit", 50, "how many, from 1 to 1000")
	return cmd
}

func occurrencesText(list []schedule.Occurrence) string {
	if len(list) == 0 {
		return "No job was due yet.\n"
	}
	rows := make([][]string, len(list))
	for i, s := range list {
		due := s.DueAt.Local().Format(time.DateTime)
		if s.Count > 0 {
			due = s.Since.Local().Format(time.DateTime) + " … " + due + " (" + strconv.Itoa(s.Count) + ")"
		}
		took := ""
		if !s.Began.IsZero() && !s.Ended.IsZero() {
			took = s.Ended.Sub(s.Began).Round(time.Second).String()
		}
		state := strings.TrimSpace(string(s.State) + " " + string(s.Result))
		if s.Manual {
			state += ", manual"
		}
		rows[i] = []string{due, string(s.Job), state, took, string(s.Delivery), s.Entry, text.Cut(s.Reason, 80)}
	}
	return text.Table([]string{"DUE", "JOB", "STATE", "DURATION", "DELIVERY", "MESSAGE", "REASON"}, rows)
}

func (c *cli) cronStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show whether scheduled prompts run", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(cmd.Context(), c, (*admin.Client).CronStatus, func(s admin.Cron) string { return cronText(s, time.Now(), c.next("run")) })
		},
	}
}

// cronText describes the scheduler; run is the command that starts the daemon.
func cronText(s admin.Cron, now time.Time, run string) string {
	if !s.Live {
		return "No daemon is running, so no job runs; start it with " + run + ".\n"
	}
	var b strings.Builder
	switch {
	case s.Stalled:
		fmt.Fprintf(&b, "STALLED: the clock was last asked %s; jobs do not run. The log says why.\n", text.Ago(s.LastTick, now))
	case s.Error != "":
		fmt.Fprintf(&b, "FAILING: %s; it is tried again and again.\n", text.Line(s.Error))
	case s.Jobs == 0:
		b.WriteString("Running.\n")
	default:
		fmt.Fprintf(&b, "Running; the clock was last asked %s.\n", text.Ago(s.LastTick, now))
	}
	fmt.Fprintf(&b, "%s, %s under way, %d waiting\n", text.Count(s.Jobs, "job"), text.Count(s.Running, "run"), s.Waiting)
	if !s.Next.IsZero() {
		fmt.Fprintf(&b, "next: %s at %s\n", s.NextJob, s.Next.Local().Format("Mon 2006-01-02 15:04:05 MST"))
	}
	return b.String()
}

func (c *cli) cronImportCmd() *cobra.Command {
	return &cobra.Command{
		Use: "import [FILE]", Short: "Take the jobs of an existing Hermes home", Args: args(0, 1),
		Long: `Take the jobs of an existing Hermes home.

FILE is cron/jobs.json of the home directory if none is named. Each job is taken
once: one that is there, or was removed, stays as it is.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			home, err := config.ResolveHome(c.home, c.env)
			if err != nil {
				return err
			}
			path := filepath.Join(home, "cron", "jobs.json")
			if len(args) > 0 {
				path = args[0]
			}
			if path, err = filepath.Abs(path); err != nil {
				return err
			}
			return c.withZone(cmd.Context(), func(client *admin.Client) error {
				done, err := client.ImportJobs(cmd.Context(), path)
				if err != nil {
					return err
				}
				for _, p := range done.Problems {
					c.printNote("%s", text.Line(p))
				}
				return c.show(done, func() string {
					return fmt.Sprintf("%s taken, %d known already, %s.\n", text.Count(len(done.Added), "job"), len(done.Existing), text.Count(len(done.Problems), "problem"))
				})
			})
		},
	}
}
