package discord

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hermesd/internal/lazyregexp"
)

func commandRoutes() map[string]func(*call) (any, *apiError) {
	return map[string]func(*call) (any, *apiError){
		RouteCommands:         getCommands,
		RouteCreateCommand:    createCommand,
		RouteSetCommands:      setCommands,
		RouteEditCommand:      editCommand,
		RouteDeleteCommand:    deleteCommand,
		RouteGuildCommands:    getCommands,
		RouteCreateGuildCmd:   createCommand,
		RouteSetGuildCommands: setCommands,
		RouteEditGuildCmd:     editCommand,
		RouteDeleteGuildCmd:   deleteCommand,
	}
}

// A Command is a registered application command.
type Command struct {
	ID          string
	Guild       string // "": a global command
	Name        string
	Description string
	Version     string // changes with every update
}

// A command is a command with all fields that the bot registered.
type command struct {
	Command
	kind   int
	fields obj
}

// Commands returns the registered commands of the bot, sorted by name: the
// global ones, or those of a guild.
func (b *Bot) Commands(guild string) []Command {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	var out []Command
	for _, c := range b.commands {
		if c.Guild == guild {
			out = append(out, c.Command)
		}
	}
	slices.SortFunc(out, func(a, b Command) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

const (
	maxCommands    = 100
	maxDescription = 100
	maxOptions     = 25
)

var commandName = lazyregexp.New(`^[-_'\p{L}\p{N}]{1,32}$`)

// appLocked requires that the call is about the bot's own application and that
// the bot is in the guild of the call, if there is one.
func (c *call) appLocked() *apiError {
	if c.path("app") != c.bot.user.ID {
		return refuse(http.StatusForbidden, 20012, "You are not authorized to perform this action on this application")
	}
	if c.path("guild") != "" {
		_, err := c.guildLocked()
		return err
	}
	return nil
}

// merge sets the fields of a request and validates the result.
func (cm *command) merge(fields obj) *apiError {
	all := obj{"type": 1.0, "description": "", "nsfw": false, "default_member_permissions": nil}
	for _, source := range []obj{cm.fields, fields} {
		for k, v := range source {
			all[k] = v
		}
	}
	kind, _ := all["type"].(float64)
	cm.kind = int(kind)
	cm.Name, _ = all["name"].(string)
	cm.Description, _ = all["description"].(string)
	n := utf8.RuneCountInString(cm.Description)
	switch {
	case cm.kind == 1 && (!commandName().MatchString(cm.Name) || strings.ToLower(cm.Name) != cm.Name):
		return invalid("name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
	case cm.kind == 1 && (n < 1 || n > maxDescription):
		return badLength("description", 1, maxDescription)
	case cm.kind != 1 && n > 0:
		return invalid("description", "APPLICATION_COMMAND_INVALID_DESCRIPTION", "Description must be empty")
	}
	list, _ := all["options"].([]any)
	if len(list) > maxOptions {
		return badLength("options", 0, maxOptions)
	}
	for i, raw := range list {
		option, _ := raw.(obj)
		name, _ := option["name"].(string)
		if !commandName().MatchString(name) || strings.ToLower(name) != name {
			return invalid("options."+strconv.Itoa(i)+".name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
		}
		if on, _ := option["required"].(bool); !on {
			delete(option, "required") // the real server omits it too
		}
	}
	if len(list) == 0 {
		delete(all, "options")
	}
	for _, own := range []string{"id", "application_id", "guild_id", "version"} {
		delete(all, own)
	}
	cm.fields = all
	return nil
}

func (cm *command) wire(b *Bot) obj {
	w := obj{
		"id": cm.ID, "application_id": b.user.ID, "version": cm.Version, "integration_types": []int{0},
	}
	if cm.Guild == "" {
		w["dm_permission"], w["contexts"] = true, nil
	} else {
		w["guild_id"] = cm.Guild
	}
	for k, v := range cm.fields {
		w[k] = v
	}
	return w
}

// findLocked returns the command with a name and type, or nil.
func (b *Bot) findLocked(guild, name string, kind int) *command {
	for _, cm := range b.commands {
		if cm.Guild == guild && cm.Name == name && cm.kind == kind {
			return cm
		}
	}
	return nil
}

// getCommands handles RouteCommands and RouteGuildCommands.
func getCommands(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if err := c.appLocked(); err != nil {
		return nil, err
	}
	return c.commandsLocked(), nil
}

func (c *call) commandsLocked() []obj {
	out := []obj{}
	for _, cm := range c.bot.commands {
		if cm.Guild == c.path("guild") {
			out = append(out, cm.wire(c.bot))
		}
	}
	return out
}

// createCommand handles RouteCreateCommand and RouteCreateGuildCmd. It updates
// a command with a known name.
func createCommand(c *call) (any, *apiError) {
	var fields obj
	if err := c.decode(&fields); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if err := c.appLocked(); err != nil {
		return nil, err
	}
	cm := &command{}
	if err := cm.merge(fields); err != nil {
		return nil, err
	}
	if old := c.bot.findLocked(c.path("guild"), cm.Name, cm.kind); old != nil {
		old.fields, old.Description, old.Version = cm.fields, cm.Description, c.s.newIDLocked()
		return old.wire(c.bot), nil
	}
	if len(c.commandsLocked()) >= maxCommands {
		return nil, refuse(http.StatusBadRequest, 30032, "Maximum number of application commands reached (100).")
	}
	c.addCommandLocked(cm)
	return created{cm.wire(c.bot)}, nil
}

func (c *call) addCommandLocked(cm *command) {
	cm.Guild, cm.ID = c.path("guild"), c.s.newIDLocked()
	cm.Version = c.s.newIDLocked()
	c.bot.commands = append(c.bot.commands, cm)
}

// setCommands handles RouteSetCommands and RouteSetGuildCommands. Known names
// keep their IDs; commands that are not named are deleted.
func setCommands(c *call) (any, *apiError) {
	var list []obj
	if err := c.decode(&list); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if err := c.appLocked(); err != nil {
		return nil, err
	}
	if len(list) > maxCommands {
		return nil, refuse(http.StatusBadRequest, 30032, "Maximum number of application commands reached (100).")
	}
	var wanted []*command
	for _, fields := range list {
		cm := &command{}
		if err := cm.merge(fields); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(wanted, func(o *command) bool { return o.Name == cm.Name && o.kind == cm.kind }) {
			return nil, invalid("name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique")
		}
		wanted = append(wanted, cm)
	}
	guild := c.path("guild")
	old := c.bot.commands
	c.bot.commands = slices.DeleteFunc(slices.Clone(old), func(cm *command) bool { return cm.Guild == guild })
	for _, cm := range wanted {
		i := slices.IndexFunc(old, func(o *command) bool { return o.Guild == guild && o.Name == cm.Name && o.kind == cm.kind })
		c.addCommandLocked(cm)
		if i >= 0 {
			cm.ID = old[i].ID
			if string(encode(old[i].fields)) == string(encode(cm.fields)) {
				cm.Version = old[i].Version
			}
		}
	}
	return c.commandsLocked(), nil
}

// commandLocked returns the command that the path names.
func (c *call) commandLocked() (*command, *apiError) {
	if err := c.appLocked(); err != nil {
		return nil, err
	}
	for _, cm := range c.bot.commands {
		if cm.ID == c.path("command") && cm.Guild == c.path("guild") {
			return cm, nil
		}
	}
	return nil, unknown(10063, "application command")
}

// editCommand handles RouteEditCommand and RouteEditGuildCmd.
func editCommand(c *call) (any, *apiError) {
	var fields obj
	if err := c.decode(&fields); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	cm, err := c.commandLocked()
	if err != nil {
		return nil, err
	}
	changed := *cm
	if err := changed.merge(fields); err != nil {
		return nil, err
	}
	*cm = changed
	cm.Version = c.s.newIDLocked()
	return cm.wire(c.bot), nil
}

// deleteCommand handles RouteDeleteCommand and RouteDeleteGuildCmd.
func deleteCommand(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	cm, err := c.commandLocked()
	if err != nil {
		return nil, err
	}
	c.bot.commands = slices.DeleteFunc(c.bot.commands, func(o *command) bool { return o == cm })
	return nil, nil
}

// An Option is an option of a command that a person uses; its value is a
// string, bool, int or float64.
type Option struct {
	Name  string
	Value any
}

func (o Option) wire() obj {
	kind := 3
	switch o.Value.(type) {
	case int:
		kind = 4
	case bool:
		kind = 5
	case float64, json.Number:
		kind = 10
	}
	return obj{"name": o.Name, "type": kind, "value": o.Value}
}
