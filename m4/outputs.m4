# Files that configure makes from templates, one line each.
AC_CONFIG_LINKS([bench/compare:bench/compare])
