ln -s testdata/oracle/llavanext/backbone BACKBONE
