package command

// HasOwnHandler reports whether the handler of a command is in this package.
func HasOwnHandler(name string) bool { return new(Table).ownHandlers()[name] != nil }
