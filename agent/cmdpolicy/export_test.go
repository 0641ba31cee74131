package cmdpolicy

// Rules returns all rules of the built-in table, in its order.
func Rules() []Rule {
	var all []Rule
	for _, r := range builtIn().rules {
		all = append(all, *r)
	}
	return all
}
