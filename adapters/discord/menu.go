package discord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/adapters/discord/internal/markdown"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

// A command is one of the application's commands in Discord's encoding.
type command struct {
	Name    string          `json:"name"`
	Help    string          `json:"description"`
	Type    int             `json:"type"`
	Options []commandOption `json:"options"`
}

type commandOption struct {
	Type     int    `json:"type"`
	Name     string `json:"name"`
	Help     string `json:"description"`
	Required bool   `json:"required"`
}

const (
	typeSlash  = 1
	typeString = 3
)

// PublishCommands implements chat.CommandPublisher. It writes only if the menu
// differs from the current one.
func (a *Adapter) PublishCommands(ctx context.Context, commands []chat.CommandInfo) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	app, err := a.application(ctx)
	if err != nil {
		return fmt.Errorf("fetch application: %w", err)
	}
	path, want := "applications/"+app+"/commands", menu(commands, a.o.Words)
	var have []command
	if err := a.wire.Do(ctx, apiclient.Call{Method: "GET", Path: path, Bucket: "commands"}, &have); err != nil {
		return fmt.Errorf("read command menu: %w", menuError(err))
	}
	if slices.EqualFunc(sorted(have), sorted(want), same) {
		return nil
	}
	if err := a.wire.Do(ctx, apiclient.Call{Method: "PUT", Path: path, Body: want, Bucket: "commands"}, nil); err != nil {
		return fmt.Errorf("write command menu: %w", menuError(err))
	}
	return nil
}

// menuError turns a rejected token into a *chat.ConfigError.
func menuError(err error) error {
	if apierror.Status(err) == 401 {
		return &chat.ConfigError{Platform: chat.Discord, Reason: apierror.BadToken}
	}
	return apierror.SendError(err)
}

func (a *Adapter) application(ctx context.Context) (string, error) {
	if app := a.Identity().App; app != "" {
		return app, nil
	}
	var app struct {
		ID string `json:"id"`
	}
	err := a.wire.Do(ctx, apiclient.Call{Method: "GET", Path: "oauth2/applications/@me", Bucket: "application"}, &app)
	if err != nil {
		return "", menuError(err)
	}
	if app.ID == "" {
		return "", errors.New("response has no application ID")
	}
	return app.ID, nil
}

func sorted(all []command) []command {
	return slices.SortedFunc(slices.Values(all), func(a, b command) int { return strings.Compare(a.Name, b.Name) })
}

func same(a, b command) bool {
	return a.Name == b.Name && a.Help == b.Help && max(a.Type, typeSlash) == max(b.Type, typeSlash) && slices.Equal(a.Options, b.Options)
}

// menu returns the commands that Discord can show, under valid names.
func menu(items []chat.CommandInfo, say i18n.Printer) []command {
	out := []command{}
	seen := make(map[string]bool)
	for _, it := range items {
		name := menuName(it.Name)
		if name == "" || seen[name] || len(out) == menuLimit {
			continue
		}
		seen[name] = true
		help := cmp.Or(markdown.Cut(strings.Join(strings.Fields(it.Help), " "), menuHelp), name)
		out = append(out, command{
			Name: name, Help: help, Type: typeSlash,
			Options: []commandOption{{Type: typeString, Name: "text", Help: say.T("what follows the command")}},
		})
	}
	return out
}

// menuName returns name in Discord's alphabet, "" if that is not possible: 1 to
// 32 lower-case letters, digits, hyphens and underscores.
func menuName(name string) string {
	name = strings.ToLower(strings.TrimPrefix(name, "/"))
	foreign := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' }
	if markdown.Len(name) > 32 || strings.ContainsFunc(name, foreign) {
		return ""
	}
	return name
}
