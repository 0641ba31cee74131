package telegram

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"hermesd/adapters/telegram/internal/entity"
	"hermesd/gateway/chat"
)

// PublishCommands implements chat.CommandPublisher, for direct chats and for
// groups. It writes only if the menu differs from the current one.
func (a *Adapter) PublishCommands(ctx context.Context, commands []chat.CommandInfo) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	want := menu(commands)
	for _, scope := range []models.BotCommandScope{
		&models.BotCommandScopeAllPrivateChats{}, &models.BotCommandScopeAllGroupChats{},
	} {
		have, err := a.api.GetMyCommands(ctx, &bot.GetMyCommandsParams{Scope: scope})
		if err != nil {
			return fmt.Errorf("read command menu: %w", sendError(err, chat.Address{}))
		}
		if slices.Equal(have, want) {
			continue
		}
		if _, err := a.api.SetMyCommands(ctx, &bot.SetMyCommandsParams{Commands: want, Scope: scope}); err != nil {
			return fmt.Errorf("write command menu: %w", sendError(err, chat.Address{}))
		}
	}
	return nil
}

// menu returns the commands that Telegram can show, under valid names.
func menu(items []chat.CommandInfo) []models.BotCommand {
	out := make([]models.BotCommand, 0, len(items))
	seen := make(map[string]bool)
	for _, it := range items {
		name := menuName(it.Name)
		if name == "" || seen[name] || len(out) == menuLimit {
			continue
		}
		seen[name] = true
		help := entity.Cut(strings.Join(strings.Fields(it.Help), " "), 256)
		if help == "" {
			help = name
		}
		out = append(out, models.BotCommand{Command: name, Description: help})
	}
	return out
}

// menuName returns name in Telegram's alphabet, "" if that is not possible: 1 to
// 32 characters a-z, 0-9 and underscore.
func menuName(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "/")), "-", "_")
	if name == "" || len(name) > 32 {
		return ""
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
			return ""
		}
	}
	return name
}
